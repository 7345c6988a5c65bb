// tests/simd/int16_lanes_test.cpp - dot products of int16 against plain arithmetic, at extremes.
#include <decant/simd/int16_lanes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace decant;
using namespace decant::simd;

using Words = std::array<std::int32_t, 16>;

static_assert(sizeof(IntLanes) == sizeof(Words));
Words words_of(const IntLanes& lanes) {
  Words words;
  std::memcpy(words.data(), &lanes, sizeof words);
  return words;
}

// Sixteen words of two int16 each, from bytes, the low ones first.
IntLanes lanes_of(const std::vector<std::int8_t>& low, const std::vector<std::int8_t>& high) {
  std::vector<std::int8_t> both = low;
  both.insert(both.end(), high.begin(), high.end());
  return int16_of_bytes(both.data());
}

void expect_dot(const std::vector<std::int8_t>& low, const std::vector<std::int8_t>& high,
                std::int32_t a, std::int32_t b, std::int32_t start) {
  const IntLanes lanes = lanes_of(low, high);
  const Words stored = words_of(lanes);
  const Words sums = words_of(dot_int16(broadcast_int(start), lanes, pack_int16(a, b)));
  for (std::size_t n = 0; n < 16; ++n) {
    ASSERT_EQ(stored[n], pack_int16(low[n], high[n])) << "lane " << n;
    ASSERT_EQ(sums[n], start + low[n] * a + high[n] * b) << "lane " << n;
    ASSERT_EQ(sums[n], dot_int16_reference(start, stored[n], pack_int16(a, b))) << "lane " << n;
  }
}

TEST(WordLanes, AddTwoProductsExactly) {
  std::mt19937 random(1);
  const auto bytes = [&] {
    std::vector<std::int8_t> result(16);
    for (std::int8_t& byte : result) byte = static_cast<std::int8_t>(random());
    return result;
  };
  const auto word = [&] { return std::int32_t{static_cast<std::int16_t>(random())}; };
  for (int turn = 0; turn < 200; ++turn) {
    const auto start = static_cast<std::int32_t>(random() % 2'000'000'000) - 1'000'000'000;
    expect_dot(bytes(), bytes(), word(), word(), start);
  }
}

TEST(WordLanes, DoNotSaturate) {
  for (std::int8_t key : {std::int8_t{-128}, std::int8_t{127}}) {
    for (std::int32_t query : {-32768, 32767}) {
      const std::vector<std::int8_t> keys(16, key);
      expect_dot(keys, keys, query, query, 2'000'000'000);
      expect_dot(keys, keys, query, query, -2'000'000'000);
    }
  }
  const IntLanes most = broadcast_int(pack_int16(32767, 32767));
  const IntLanes sums = dot_int16(broadcast_int(1), most, pack_int16(32767, -32768));
  EXPECT_EQ(words_of(sums)[15], 1 + 32767 * 32767 - 32767 * 32768);
}

TEST(WordLanes, WrapAroundBeyond32Bits) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const IntLanes sums =
      dot_int16(broadcast_int(kMost), broadcast_int(pack_int16(1, 0)), pack_int16(1, 0));
  EXPECT_EQ(words_of(sums)[0], std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(dot_int16_reference(kMost, pack_int16(1, 0), pack_int16(1, 0)), words_of(sums)[0]);
}

TEST(WordLanes, TakeNibblesApart) {
  for (int first = 0; first < 256; first += 16) {
    std::uint8_t bytes[16];
    for (int n = 0; n < 16; ++n) bytes[n] = static_cast<std::uint8_t>(first + n);
    const Words words = words_of(int16_of_nibbles(bytes));
    for (std::size_t n = 0; n < 16; ++n) {
      EXPECT_EQ(words[n], pack_int16((bytes[n] & 15) - 8, (bytes[n] >> 4) - 8)) << first;
    }
  }
}

}  // namespace
