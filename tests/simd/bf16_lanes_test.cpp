// tests/simd/bf16_lanes_test.cpp - dot products of bf16 against plain arithmetic.
#include <decant/simd/bf16_lanes.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace decant;
using namespace decant::simd;

float half_of(std::uint32_t word, int half) {
  return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xFFFF0000u);
}

std::vector<std::uint32_t> words_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> words(values.size() / 2);
  for (std::size_t at = 0; at < values.size(); at += 16) {
    store_bf16(&words[at / 2], load(&values[at]));
  }
  return words;
}

std::vector<float> noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;
  return values;
}

TEST(BF16Lanes, StoreTheNearestValuesTiesToEven) {
  const float step = 0x1p-7f;  // of bf16 from 1 to 2
  const std::vector<float> values = {1.0f,     1.0f + step / 2, 1.0f + step * 1.5f,
                                     -1.0f,    3.0e38f,         3.4e38f,
                                     0.0f,     -0.0f,           1.0f + step,
                                     0.1f,     -0.3f,           65504.0f,
                                     1.0e-30f, -1.0e30f,        7.0f,
                                     8.0f};
  const std::vector<std::uint32_t> words = words_of(values);
  for (std::size_t n = 0; n < 16; ++n) {
    const float stored = half_of(words[n / 2], static_cast<int>(n % 2));
    const auto bits = std::bit_cast<std::uint32_t>(values[n]);
    const std::uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);  // beyond the largest: infinity
    EXPECT_EQ(std::bit_cast<std::uint32_t>(stored), rounded & 0xFFFF0000u) << values[n];
  }
}

TEST(BF16Lanes, PropagateNaN) {
  std::vector<float> values(16, 1.0f);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[8] = std::numeric_limits<float>::infinity();
  values[9] = std::bit_cast<float>(0x7F800001u);  // a NaN that rounding would make infinite
  const std::vector<std::uint32_t> words = words_of(values);
  EXPECT_TRUE(std::isnan(half_of(words[1], 1)));
  EXPECT_EQ(half_of(words[4], 0), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half_of(words[4], 1)));
}

TEST(BF16Lanes, AddBothProductsToTheirSum) {
  const std::vector<std::uint32_t> weights = words_of(noise(32, 1));
  const std::vector<std::uint32_t> values = words_of(noise(64, 2));
  const std::vector<float> start = noise(16, 3);
  const Lanes words = load_words(weights.data());
  Lanes fast = load(start.data());
  Lanes plain = fast;
  std::vector<double> exact(start.begin(), start.end());
  for (std::uint32_t word : values) {
    fast = dot_bf16(words, word, fast);
    plain = dot_bf16_reference(words, word, plain);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      for (int half : {0, 1}) {
        exact[lane] += static_cast<double>(half_of(weights[lane], half)) *
                       static_cast<double>(half_of(word, half));
      }
    }
  }
  std::vector<float> sums(16), references(16);
  store(sums.data(), fast);
  store(references.data(), plain);
  for (std::size_t lane = 0; lane < 16; ++lane) {
    EXPECT_NEAR(sums[lane], exact[lane], 1e-5);
    EXPECT_NEAR(references[lane], exact[lane], 1e-5);
  }
}

}  // namespace
