// tests/kernels/matrix_test.cpp - a matrix of run-time type does what the packed one does.
#include <decant/kernels/matrix.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
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
