// tests/kernels/matrix_test.cpp - a matrix of run-time type does what the packed one does.
#include <decant/core/thread_pool.hpp>
#include <decant/kernels/matrix.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::Type;
using kernels::Matrix;
using kernels::MatrixView;
using kernels::row_major;

TEST(Matrix, IsEmptyUntilMade) {
  const Matrix none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.rows(), 0);
  EXPECT_EQ(none.columns(), 0);
  EXPECT_EQ(none.bytes(), 0);
}

TEST(Matrix, OfOneViewHasItsType) {
  const std::vector<std::uint16_t> cells(20 * 6, 0);
  const Matrix matrix(row_major(cells.data(), Type::bf16, 20, 6));
  EXPECT_FALSE(matrix.empty());
  EXPECT_EQ(matrix.type(), Type::bf16);
  EXPECT_EQ(matrix.rows(), 20);
  EXPECT_EQ(matrix.columns(), 6);
  EXPECT_EQ(matrix.bytes(), 32 * 6 * 2);
}

// All bytes of its panels.
std::string bytes_of(const Matrix& matrix) {
  const kernels::Panels panels = matrix.panels();
  return {reinterpret_cast<const char*>(panels.memory.get()),
          static_cast<std::size_t>(panels.bytes)};
}

TEST(Matrix, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<float> values = trial::noisy(150 * 96, 1);
  const MatrixView views[] = {row_major(values.data(), Type::f32, 7, 96),
                              row_major(values.data() + 7 * 96, Type::f32, 2, 96),
                              row_major(values.data() + 9 * 96, Type::f32, 141, 96)};
  ThreadPool threads(3);
  for (Type type : {Type::f32, Type::bf16, Type::f16, Type::q8_0, Type::q4_0}) {
    const Matrix one(views, type);
    const Matrix other(views, type, std::nullopt, {.executor = threads});
    EXPECT_EQ(bytes_of(one), bytes_of(other)) << codec::name(type);
    std::vector<float> row(96);
    for (Index at = 0; at < 150; ++at) {
      other.row(at, row);
      EXPECT_NEAR(row[5], values[static_cast<std::size_t>(at * 96 + 5)], 0.2f);
    }
  }
}

TEST(Matrix, SharesThePanelsOfAnother) {
  const std::vector<float> values = trial::noisy(20 * 33, 1);
  for (Type type : {Type::f32, Type::bf16, Type::f16, Type::q8_0, Type::q4_0}) {
    std::optional<Matrix> first(
        std::in_place, std::vector<MatrixView>{row_major(values.data(), Type::f32, 20, 33)}, type);
    const std::string bytes = bytes_of(*first);
    const Matrix second(first->panels(), kernels::Activations::full);
    EXPECT_EQ(second.panels().memory, first->panels().memory);
    first.reset();
    EXPECT_EQ(second.type(), type);
    EXPECT_EQ(second.rows(), 20);
    EXPECT_EQ(second.columns(), 33);
    EXPECT_EQ(second.activations(), kernels::Activations::full);
    EXPECT_EQ(bytes_of(second), bytes);
  }
}

TEST(Matrix, RefusesPanelsThatCannotBeIts) {
  const std::vector<float> values = trial::noisy(20 * 6, 1);
  const Matrix matrix(row_major(values.data(), Type::f32, 20, 6));
  const auto refused = [&](auto change) {
    kernels::Panels panels = matrix.panels();
    change(panels);
    EXPECT_THROW(Matrix{panels}, std::invalid_argument);
  };
  EXPECT_NO_THROW(Matrix{matrix.panels()});
  refused([](auto& panels) { panels.bytes += 64; });
  refused([](auto& panels) { panels.rows = 33; });
  refused([](auto& panels) { panels.columns = 0; });
  refused([](auto& panels) { panels.rows = Index{1} << 62; });
  refused([](auto& panels) { panels.type = Type::int8; });
  refused([](auto& panels) { panels.memory = nullptr; });
  refused([](auto& panels) { panels.memory = {panels.memory, panels.memory.get() + 16}; });
  EXPECT_EQ(Matrix().panels().memory, nullptr);
}

TEST(Matrix, IsThePackedMatrixOfItsType) {
  const std::vector<float> values = trial::noisy(50 * 21, 1);
  const std::vector<float> in = trial::noisy(4 * 21, 2);
  const std::vector<float> bias = trial::noisy(50, 3);
  const MatrixView views[] = {row_major(values.data(), Type::f32, 17, 21),
                              row_major(values.data() + 17 * 21, Type::f32, 33, 21)};
  for (Type type : {Type::f32, Type::bf16, Type::f16}) {
    const Matrix matrix(views, type);
    codec::visit(type, [&](auto c) {
      const kernels::detail::Packed<decltype(c)> packed{views};
      EXPECT_EQ(matrix.type(), type);
      EXPECT_EQ(matrix.rows(), packed.rows());
      EXPECT_EQ(matrix.columns(), packed.columns());
      EXPECT_EQ(matrix.bytes(), packed.bytes());
      std::vector<float> expected(4 * 50);
      std::vector<float> actual(4 * 50);
      kernels::RowTiles tiles(4, 21);
      kernels::Product product = {.rows = 4,
                                  .in = in.data(),
                                  .in_stride = 21,
                                  .out = expected.data(),
                                  .out_stride = 50,
                                  .bias = bias.data()};
      kernels::detail::multiply(packed, product, tiles, serial_executor());
      product.out = actual.data();
      matrix.multiply(product, tiles, serial_executor());
      EXPECT_TRUE(trial::same_bits(expected, actual));
      std::vector<float> expected_row(21);
      std::vector<float> actual_row(21);
      packed.row(30, expected_row);
      matrix.row(30, actual_row);
      EXPECT_EQ(actual_row, expected_row);
    });
  }
}

TEST(Matrix, RefusesAsThePackedMatrixDoes) {
  const std::vector<float> values(12);
  EXPECT_THROW(Matrix(row_major(values.data(), Type::f32, 0, 4)), std::invalid_argument);
  EXPECT_THROW(Matrix(std::span<const MatrixView>(), Type::f16), std::invalid_argument);
  const Matrix matrix(row_major(values.data(), Type::f32, 3, 4));
  std::vector<float> row(4);
  EXPECT_THROW(matrix.row(3, row), std::invalid_argument);
}

TEST(Matrix, MovesAndIsEmptyAfterAssignmentOfNone) {
  const std::vector<float> values = trial::noisy(12, 4);
  Matrix matrix(row_major(values.data(), Type::f32, 3, 4));
  Matrix moved = std::move(matrix);
  std::vector<float> row(4);
  moved.row(2, row);
  EXPECT_EQ(row, std::vector<float>(values.begin() + 8, values.end()));
  moved = Matrix();
  EXPECT_TRUE(moved.empty());
}

}  // namespace
