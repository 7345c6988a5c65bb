// tests/kernels/packed_test.cpp - where every cell of a matrix goes, from any memory layout.
#include <decant/kernels/detail/packed.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using kernels::MatrixView;
using kernels::row_major;
using kernels::detail::Packed;

template <class C>
class PackedMatrix : public testing::Test {};
using PackedFormats = testing::Types<F32, BF16, F16>;
TYPED_TEST_SUITE(PackedMatrix, PackedFormats);

template <class C>
Packed<C> pack(const MatrixView& view) {
  return Packed<C>({&view, 1});
}

// `values` as cells of `type`, starting at an odd address.
class Unaligned {
 public:
  Unaligned(const std::vector<float>& values, codec::Type type)
      : bytes_(values.size() * static_cast<std::size_t>(codec::cell_bytes(type)) + 1) {
    codec::visit(type, [&](auto c) {
      using C = decltype(c);
      for (std::size_t n = 0; n < values.size(); ++n) {
        const typename C::Cell cell = C::store(values[n]);
        std::memcpy(bytes_.data() + 1 + n * sizeof cell, &cell, sizeof cell);
      }
    });
  }
  const void* data() const { return bytes_.data() + 1; }

 private:
  std::vector<char> bytes_;
};

// Cell (row, column) is where the layout [panel][column / i][16][i] has it; the rest is zero.
TYPED_TEST(PackedMatrix, PutsEveryCellInItsPanelAndZerosBeyond) {
  using C = TypeParam;
  constexpr Index i = C::kInterleave;
  for (Index rows : {1, 2, 15, 16, 17, 31, 33, 64, 65}) {
    for (Index columns : {1, 2, 3, 7, 16, 33}) {
      const std::vector<float> values = trial::noisy(rows * columns, 3);
      const Packed<C> packed = pack<C>(row_major(values.data(), codec::Type::f32, rows, columns));
      ASSERT_EQ(packed.rows(), rows);
      ASSERT_EQ(packed.columns(), columns);
      ASSERT_EQ(packed.panels(), (rows + 15) / 16);
      ASSERT_EQ(packed.panel_cells(), (columns + i - 1) / i * i * 16);
      ASSERT_EQ(packed.bytes(),
                packed.panels() * packed.panel_cells() * Index{sizeof(typename C::Cell)});
      for (Index row = 0; row < packed.panels() * 16; ++row) {
        for (Index column = 0; column < packed.panel_cells() / 16; ++column) {
          const auto cell = packed.panel(row / 16)[column / i * i * 16 + row % 16 * i + column % i];
          const bool inside = row < rows && column < columns;
          const float expected =
              inside ? values[static_cast<std::size_t>(row * columns + column)] : 0.0f;
          ASSERT_EQ(C::load(cell), C::load(C::store(expected))) << row << ", " << column;
        }
      }
    }
  }
}

TYPED_TEST(PackedMatrix, ReadsAnyTypeAtAnyAddress) {
  using C = TypeParam;
  const std::vector<float> values = trial::noisy(19 * 5, 4);
  for (codec::Type type : {codec::Type::f32, codec::Type::bf16, codec::Type::f16}) {
    const Unaligned memory(values, type);
    const Packed<C> packed = pack<C>(row_major(memory.data(), type, 19, 5));
    std::vector<float> row(5);
    for (Index r = 0; r < 19; ++r) {
      packed.row(r, row);
      for (std::size_t c = 0; c < 5; ++c) {
        const float value = values[static_cast<std::size_t>(r) * 5 + c];
        const float there = codec::visit(
            type, [&](auto from) { return decltype(from)::load(decltype(from)::store(value)); });
        EXPECT_EQ(row[c], C::load(C::store(there)));
      }
    }
  }
}

TYPED_TEST(PackedMatrix, CopiesCellsOfItsOwnTypeUnchanged) {
  using C = TypeParam;
  if constexpr (sizeof(typename C::Cell) == 2) {
    std::vector<std::uint16_t> cells(16 * 4096);
    for (std::size_t n = 0; n < cells.size(); ++n) cells[n] = static_cast<std::uint16_t>(n);
    const Packed<C> packed = pack<C>(row_major(cells.data(), C::kType, 16, 4096));
    for (Index row = 0; row < 16; ++row) {
      for (Index column = 0; column < 4096; ++column) {
        constexpr Index i = C::kInterleave;
        std::uint16_t cell;
        std::memcpy(&cell, packed.panel(0) + column / i * i * 16 + row * i + column % i, 2);
        ASSERT_EQ(cell, row * 4096 + column);
      }
    }
  }
}

TYPED_TEST(PackedMatrix, FollowsStrides) {
  const std::vector<float> values = trial::noisy(200, 5);
  const auto value = [&](Index at) { return values[static_cast<std::size_t>(at)]; };
  const MatrixView transposed = {values.data(), codec::Type::f32, 18, 7, 1, 18};
  const MatrixView spread = {values.data(), codec::Type::f32, 9, 5, 20, 3};
  const MatrixView shared = {values.data(), codec::Type::f32, 4, 6, 0, 1};
  for (const MatrixView& view : {transposed, spread, shared}) {
    const Packed<TypeParam> packed = pack<TypeParam>(view);
    std::vector<float> row(static_cast<std::size_t>(view.columns));
    for (Index r = 0; r < view.rows; ++r) {
      packed.row(r, row);
      for (Index c = 0; c < view.columns; ++c) {
        EXPECT_EQ(
            row[static_cast<std::size_t>(c)],
            TypeParam::load(TypeParam::store(value(r * view.row_stride + c * view.column_stride))));
      }
    }
  }
}

TYPED_TEST(PackedMatrix, StacksRowsOfDifferentTypes) {
  const std::vector<float> values = trial::noisy(40 * 9, 6);
  const Unaligned brain({values.begin(), values.begin() + 3 * 9}, codec::Type::bf16);
  const Unaligned half({values.begin() + 3 * 9, values.begin() + 20 * 9}, codec::Type::f16);
  const MatrixView views[] = {row_major(brain.data(), codec::Type::bf16, 3, 9),
                              row_major(half.data(), codec::Type::f16, 17, 9),
                              row_major(values.data() + 20 * 9, codec::Type::f32, 20, 9)};
  const Packed<TypeParam> packed{views};
  ASSERT_EQ(packed.rows(), 40);
  std::vector<float> row(9);
  for (Index r = 0; r < 40; ++r) {
    packed.row(r, row);
    for (std::size_t c = 0; c < 9; ++c) {
      float value = values[static_cast<std::size_t>(r) * 9 + c];
      if (r < 3) value = BF16::load(BF16::store(value));
      if (r >= 3 && r < 20) value = F16::load(F16::store(value));
      EXPECT_EQ(row[c], TypeParam::load(TypeParam::store(value))) << r;
    }
  }
}

TYPED_TEST(PackedMatrix, RefusesInvalidViews) {
  const std::vector<float> values(64);
  const auto view = [&](Index rows, Index columns) {
    return row_major(values.data(), codec::Type::f32, rows, columns);
  };
  EXPECT_THROW(Packed<TypeParam>(std::span<const MatrixView>()), std::invalid_argument);
  EXPECT_THROW(pack<TypeParam>(view(0, 4)), std::invalid_argument);
  EXPECT_THROW(pack<TypeParam>(view(4, 0)), std::invalid_argument);
  EXPECT_THROW(pack<TypeParam>(view(-1, 4)), std::invalid_argument);
  EXPECT_THROW(pack<TypeParam>(view(4, Index{1} << 60)), std::invalid_argument);
  EXPECT_THROW(pack<TypeParam>(view(std::numeric_limits<Index>::max(), 4)), std::invalid_argument);
  const MatrixView unequal[] = {view(2, 4), view(2, 5)};
  EXPECT_THROW((Packed<TypeParam>{unequal}), std::invalid_argument);
}

TYPED_TEST(PackedMatrix, RefusesRowsThatItDoesNotHave) {
  const std::vector<float> values(12);
  const Packed<TypeParam> packed =
      pack<TypeParam>(row_major(values.data(), codec::Type::f32, 3, 4));
  std::vector<float> row(4);
  std::vector<float> longer(5);
  EXPECT_THROW(packed.row(3, row), std::invalid_argument);
  EXPECT_THROW(packed.row(-1, row), std::invalid_argument);
  EXPECT_THROW(packed.row(0, longer), std::invalid_argument);
}

}  // namespace
