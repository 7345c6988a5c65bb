// tests/codec/block_test.cpp - blocks of 32 weights: layout, rounding, extremes, NaN.
#include <decant/codec/block.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace {

using namespace decant;
using codec::Q4_0;
using codec::Q8_0;

template <class Q>
class Blocks : public testing::Test {};
using Codecs = testing::Types<Q8_0, Q4_0>;
TYPED_TEST_SUITE(Blocks, Codecs);

using Values = std::array<float, 32>;

Values values_of(std::uint64_t seed, double scale = 1.0) {
  const std::vector<float> noise = trial::noisy(32, seed, scale);
  Values values;
  std::copy(noise.begin(), noise.end(), values.begin());
  return values;
}

template <class Q>
Values loaded(const typename Q::Block& block) {
  Values values;
  codec::load<Q>(block, values);
  return values;
}

// Half a step of the scale; the scale itself is rounded to 11 bits; and q4_0 has no +8.
TYPED_TEST(Blocks, HoldWeightsWithinTheirStep) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Values values = values_of(seed, std::exp2(static_cast<double>(seed % 12) - 8));
    const auto block = TypeParam::quantise(values);
    const Values found = loaded<TypeParam>(block);
    float largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(value));
    const float step = largest / (TypeParam::kBits == 8 ? 127.0f : 8.0f);
    for (std::size_t i = 0; i < 32; ++i) {
      const bool cut =
          TypeParam::kBits == 4 && TypeParam::integer(block, static_cast<Index>(i)) == 7;
      const float bound = step * (cut ? 1.0f : 0.5f) + largest * 0x1p-10f;  // 8 does not exist
      EXPECT_NEAR(found[i], values[i], bound) << i;
    }
  }
}

TYPED_TEST(Blocks, OfZerosAreZeros) {
  for (float value : loaded<TypeParam>(TypeParam::quantise(Values{}))) EXPECT_EQ(value, 0.0f);
}

TYPED_TEST(Blocks, WithANaNAreNaN) {
  for (const float bad : {trial::kNaN, trial::kInfinity, -trial::kInfinity}) {
    Values values = values_of(7);
    values[19] = bad;
    for (float value : loaded<TypeParam>(TypeParam::quantise(values))) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TYPED_TEST(Blocks, ArePackedWithoutLoss) {
  const auto block = TypeParam::quantise(values_of(3));
  const auto again = TypeParam::unpacked(TypeParam::packed(block));
  for (Index i = 0; i < 32; ++i) {
    EXPECT_EQ(TypeParam::integer(again, i), TypeParam::integer(block, i)) << i;
  }
}

// A product fused with the sum is not rounded in between, and is another integer now and then.
TEST(BlockLayout, OfQ4RoundsProductsBeforeItAdds) {
  int fused_differently = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Values values = values_of(seed);
    const float largest = 2.0f + static_cast<float>(seed) / 100.0f;
    const float inverse = 1.0f / (largest / -8.0f);
    values[0] = largest;
    for (std::size_t i = 1; i < 32; ++i) {  // halfway between two integers, or beside it
      const float halfway = (static_cast<float>(i % 7) - 2.5f) / inverse;
      values[i] = i % 3 == 0 ? halfway : std::nextafter(halfway, i % 3 == 1 ? 9.0f : -9.0f);
    }
    const auto block = codec::Q4_0::quantise(values);
    for (std::size_t i = 1; i < 32; ++i) {
      const volatile float product = values[i] * inverse;
      const float expected = std::trunc(product + 8.5f) - 8.0f;
      ASSERT_EQ(codec::Q4_0::integer(block, static_cast<Index>(i)), expected) << i;
      fused_differently += std::trunc(std::fma(values[i], inverse, 8.5f)) - 8.0f != expected;
    }
  }
  EXPECT_GT(fused_differently, 0);
}

// Worked by hand: a scale of 2 (0x4000 in f16), and bytes as the file has them.
TEST(BlockLayout, OfQ8IsAScaleAndSignedBytes) {
  std::array<unsigned char, 34> bytes{0x00, 0x40};
  bytes[2] = 1;
  bytes[3] = 0xFF;
  bytes[33] = 0x80;
  Q8_0::Block block;
  std::memcpy(&block, bytes.data(), 34);
  const Values found = loaded<Q8_0>(block);
  EXPECT_EQ(found[0], 2.0f);
  EXPECT_EQ(found[1], -2.0f);
  EXPECT_EQ(found[31], -256.0f);
}

TEST(BlockLayout, OfQ4IsAScaleAndHalvesSixteenApart) {
  std::array<unsigned char, 18> bytes{0x00, 0x40};
  bytes[2] = 0xF0;
  bytes[17] = 0x19;
  Q4_0::Block block;
  std::memcpy(&block, bytes.data(), 18);
  const Values found = loaded<Q4_0>(block);
  EXPECT_EQ(found[0], -16.0f);
  EXPECT_EQ(found[16], 14.0f);
  EXPECT_EQ(found[15], 2.0f);
  EXPECT_EQ(found[31], -14.0f);
  EXPECT_EQ(found[1], -16.0f);
}

TEST(BlockRounding, OfQ8IsToTheNearestAwayFromZero) {
  Values values{};
  values[0] = 127.0f;
  values[1] = 2.5f;
  values[2] = -2.5f;
  values[3] = 2.4f;
  const auto block = Q8_0::quantise(values);
  EXPECT_EQ(Q8_0::integer(block, 0), 127);
  EXPECT_EQ(Q8_0::integer(block, 1), 3);
  EXPECT_EQ(Q8_0::integer(block, 2), -3);
  EXPECT_EQ(Q8_0::integer(block, 3), 2);
}

TEST(BlockRounding, OfQ4MakesTheLargestMinusEight) {
  Values values{};
  values[0] = 4.0f;
  values[1] = -4.0f;
  values[2] = 0.26f;
  const auto block = Q4_0::quantise(values);
  EXPECT_EQ(Q4_0::integer(block, 0), -8);
  EXPECT_EQ(Q4_0::integer(block, 1), 7);  // 8 does not exist
  EXPECT_EQ(Q4_0::integer(block, 2), -1);
  EXPECT_EQ(loaded<Q4_0>(block)[0], 4.0f);
}

}  // namespace
