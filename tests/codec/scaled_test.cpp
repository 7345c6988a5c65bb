// tests/codec/scaled_test.cpp - bytes with a scale a row: every byte, against the formats' tables.
#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::FP8E4M3;
using codec::FP8E5M2;
using codec::Int8;

// The value of a byte, by the definition of its format, in units of the codec.
template <class C>
double meant(int byte) {
  if (C::kType == codec::Type::int8) return static_cast<std::int8_t>(byte);
  const bool e4m3 = C::kType == codec::Type::fp8_e4m3;
  const int fraction_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 + 8 : 15;  // e4m3 in units of 2^8
  const int exponent = (byte & 0x7F) >> fraction_bits;
  const int fraction = byte & ((1 << fraction_bits) - 1);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return byte < 128 ? size : -size;
}

// Whether store() gives this byte for some value.
template <class C>
bool finite(int byte) {
  if (C::kType == codec::Type::int8) return byte != 128;
  return std::abs(meant<C>(byte)) <= static_cast<double>(C::kLargest);
}

template <class C>
class Scaled : public testing::Test {};
using ScaledCodecs = testing::Types<Int8, FP8E4M3, FP8E5M2>;
TYPED_TEST_SUITE(Scaled, ScaledCodecs);

TYPED_TEST(Scaled, LoadsWhatEveryByteStandsFor) {
  using Cell = typename TypeParam::Cell;
  for (int byte = 0; byte < 256; ++byte) {
    if (!finite<TypeParam>(byte)) continue;
    const auto cell = static_cast<Cell>(byte);
    EXPECT_EQ(TypeParam::load(cell), meant<TypeParam>(byte)) << byte;
    EXPECT_EQ(TypeParam::store(TypeParam::load(cell)), cell) << byte;
  }
}

TYPED_TEST(Scaled, WidensAsItLoads) {
  for (int first = 0; first < 256; first += 16) {
    typename TypeParam::Cell cells[16];
    for (int n = 0; n < 16; ++n) {
      cells[n] =
          static_cast<typename TypeParam::Cell>(finite<TypeParam>(first + n) ? first + n : 0);
    }
    float wide[16];
    store(wide, TypeParam::template widen<0>(cells));
    for (int n = 0; n < 16; ++n) EXPECT_EQ(wide[n], TypeParam::load(cells[n])) << first + n;
  }
}

TYPED_TEST(Scaled, StoresTheNearestValueTiesToEven) {
  std::vector<std::pair<double, int>> values;  // the format's, in ascending order
  for (int byte = 0; byte < 256; ++byte) {
    if (finite<TypeParam>(byte)) values.emplace_back(meant<TypeParam>(byte), byte);
  }
  std::sort(values.begin(), values.end());
  const auto stored = [](double value) {
    return static_cast<double>(TypeParam::load(TypeParam::store(static_cast<float>(value))));
  };
  for (std::size_t n = 1; n < values.size(); ++n) {
    const auto [low, low_byte] = values[n - 1];
    const auto [high, high_byte] = values[n];
    if (low == high) continue;  // two zeros
    const double middle = (low + high) / 2;
    EXPECT_EQ(stored(middle), (high_byte & 1) == 0 ? high : low) << middle;
    EXPECT_EQ(stored(std::nextafter(static_cast<float>(middle), -1e9f)), low) << middle;
    EXPECT_EQ(stored(std::nextafter(static_cast<float>(middle), 1e9f)), high) << middle;
  }
  const double largest = static_cast<double>(TypeParam::kLargest);
  EXPECT_EQ(stored(largest * 3), largest);
  EXPECT_EQ(stored(-largest * 3), -largest);
}

TYPED_TEST(Scaled, ScalesARowByItsLargestValue) {
  const std::vector<float> row = {0.5f, -3.0f, 1.0f};
  const float scale = codec::scale_of<TypeParam>(row);
  EXPECT_FLOAT_EQ(scale * TypeParam::kLargest, 3.0f);
  EXPECT_EQ(codec::scale_of<TypeParam>(std::vector<float>(4, 0.0f)), 0.0f);
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(std::isnan(codec::scale_of<TypeParam>(std::vector<float>{1.0f, odd, 2.0f})));
  }
}

TYPED_TEST(Scaled, TakesARowTooSmallToDivideForZeros) {
  for (const float small : {1e-38f, 1e-40f, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(codec::scale_of<TypeParam>(std::vector<float>{small, 0.0f}), 0.0f) << small;
  }
  EXPECT_GT(codec::scale_of<TypeParam>(std::vector<float>{1e-30f}), 0.0f);
}

TYPED_TEST(Scaled, StoresSomethingForNaN) {
  const auto cell = TypeParam::store(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(std::isinf(TypeParam::load(cell)));  // its scale is NaN, and so the row
}

TEST(Scaled, LeavesOtherCodecsUnscaled) {
  EXPECT_EQ(codec::scale_of<codec::BF16>(std::vector<float>{5.0f}), 1.0f);
}

}  // namespace
