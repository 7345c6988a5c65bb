// tests/kernels/integer_tile_test.cpp - products of integers: exactly the sums of plain loops, for
// every count of rows, panels and columns, and so the same bits whatever other rows there are and
// on any machine.
#include <decant/kernels/detail/integer_tile.hpp>

#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace decant;

// Rows and panels of random numbers, extremes included; an odd last column is followed by noise.
template <codec::IntegerCodec C, int R, int P>
struct IntegerProduct {
  explicit IntegerProduct(Index column_count) : columns(column_count) {
    std::mt19937 random(static_cast<unsigned>(columns * 100 + R * 10 + P));
    const auto words = static_cast<std::size_t>(ceil_div(columns, 2));
    const Index scale_rows = std::max<Index>(1, codec::scales_of_row<C>(columns));
    rows.resize(words * R);
    for (std::size_t at = 0; at < rows.size(); ++at) {
      const auto value = [&] { return static_cast<std::int32_t>(random() % 65535) - 32767; };
      const bool odd = columns % 2 == 1 && at / R == words - 1;
      rows[at] = simd::pack_int16(value(), odd ? 0 : value());
    }
    for (int r = 0; r < R; ++r) row_scales[r] = 0.001f * static_cast<float>(r + 1);
    for (int p = 0; p < P; ++p) {
      cells[p].resize(words * 2 / C::kPack * kLanes);
      for (auto& cell : cells[p]) cell = static_cast<typename C::Cell>(random());
      panels[p] = cells[p].data();
      scales[p].resize(static_cast<std::size_t>(scale_rows) * kLanes);
      for (float& scale : scales[p]) scale = static_cast<float>(random() % 1000) * 0.01f;
      scale_pointers[p] = scales[p].data();
    }
  }

  std::vector<float> run() const {
    std::vector<float> sums(R * P * kLanes, std::nanf(""));
    kernels::detail::multiply_integer_tile<C, R, P>(rows.data(), row_scales, panels, columns,
                                                    sums.data(), P * kLanes,
                                                    kernels::detail::StayHere{}, scale_pointers);
    return sums;
  }

  // One sum, as a plain loop.
  float expected(int r, int p, Index lane) const {
    const Index group = C::kGroup > 0 ? C::kGroup : columns;
    float total = 0;
    for (Index begin = 0; begin < columns; begin += group) {
      std::int64_t sum = 0;
      for (Index k = begin; k < std::min(columns, begin + group); ++k) {
        const auto word = rows[static_cast<std::size_t>(k / 2 * R + r)];
        const auto value = static_cast<std::int16_t>(k % 2 == 0 ? word : word >> 16);
        const typename C::Cell cell = panels[p][k / C::kPack * kLanes + lane];
        sum += value * static_cast<std::int64_t>(codec::load<C>(cell, k % C::kPack));
      }
      const float part = static_cast<float>(sum) * row_scales[r];
      if constexpr (C::kGroup == 0) return part;
      total = simd::madd(part, scales[p][static_cast<std::size_t>(begin / group * kLanes + lane)],
                         total);
    }
    return total;
  }

  Index columns;
  std::vector<std::int32_t> rows;
  float row_scales[R];
  std::vector<typename C::Cell> cells[P];
  const typename C::Cell* panels[P];
  std::vector<float> scales[P];
  const float* scale_pointers[P];
};

template <codec::IntegerCodec C, int R, int P>
void expect_exact() {
  for (Index columns : {1, 2, 3, 16, 31, 32, 33, 63, 64, 65, 127, 128, 256}) {
    SCOPED_TRACE(testing::Message() << R << " rows, " << P << " panels, " << columns << " columns");
    const IntegerProduct<C, R, P> product(columns);
    const std::vector<float> sums = product.run();
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        for (Index lane = 0; lane < kLanes; ++lane) {
          const auto at = static_cast<std::size_t>((r * P + p) * kLanes + lane);
          ASSERT_EQ(sums[at], product.expected(r, p, lane)) << r << ", " << p << ", " << lane;
        }
      }
    }
  }
}

template <class C>
class IntegerTile : public testing::Test {};
using IntegerCodecs = testing::Types<codec::Int8, codec::Int4>;
TYPED_TEST_SUITE(IntegerTile, IntegerCodecs);

TYPED_TEST(IntegerTile, IsTheExactSumForEveryShape) {
  expect_exact<TypeParam, 1, 1>();
  expect_exact<TypeParam, 1, 4>();
  expect_exact<TypeParam, 4, 1>();
  expect_exact<TypeParam, 4, 4>();
  expect_exact<TypeParam, 5, 2>();
  expect_exact<TypeParam, 6, 4>();
}

}  // namespace
