// tests/simd/int8_lanes_test.cpp - products of bytes against plain arithmetic, at their extremes.
#include <decant/simd/int8_lanes.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace decant;
using namespace decant::simd;

std::vector<std::int32_t> lanes_of(const IntLanes& values) {
  float wide[16];
  store(wide, to_lanes(values));
  std::vector<std::int32_t> lanes;
  for (float value : wide) lanes.push_back(static_cast<std::int32_t>(value));
  return lanes;
}

std::int32_t four_of(const std::int8_t (&bytes)[4]) {
  std::int32_t four;
  std::memcpy(&four, bytes, 4);
  return four;
}

void expect_dot(const std::vector<std::uint8_t>& bytes, std::int32_t four, std::int32_t start) {
  const auto sums = lanes_of(dot_int8(broadcast_int(start), load_bytes(bytes.data()), four));
  for (std::size_t n = 0; n < 16; ++n) {
    std::int32_t expected = start;
    for (std::size_t i = 0; i < 4; ++i) {
      std::int8_t value;
      std::memcpy(&value, reinterpret_cast<const char*>(&four) + i, 1);
      expected += bytes[4 * n + i] * value;
    }
    ASSERT_EQ(sums[n], expected) << "lane " << n;
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + 4 * n, 4);
    ASSERT_EQ(dot_int8_reference(start, word, four), expected);
  }
}

TEST(IntLanes, AddProductsOfUnsignedAndSignedBytesExactly) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<std::uint8_t> bytes(64);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    expect_dot(bytes, static_cast<std::int32_t>(random()),
               static_cast<std::int32_t>(random() % 1000));
  }
}

TEST(IntLanes, DoNotSaturate) {
  const std::vector<std::uint8_t> most(64, 255);
  for (std::int8_t extreme : {std::int8_t{-128}, std::int8_t{127}}) {
    expect_dot(most, four_of({extreme, extreme, extreme, extreme}), -100000);
  }
}

TEST(IntLanes, TakeBytesAndNibblesApart) {
  std::vector<std::uint8_t> bytes(64);
  for (std::size_t n = 0; n < 64; ++n) bytes[n] = static_cast<std::uint8_t>(37 * n + 11);
  const ByteLanes all = load_bytes(bytes.data());
  const auto take = [&](auto i) { return lanes_of(byte_of<i>(all)); };
  const std::vector<std::int32_t> parts[] = {
      take(std::integral_constant<int, 0>{}), take(std::integral_constant<int, 1>{}),
      take(std::integral_constant<int, 2>{}), take(std::integral_constant<int, 3>{})};
  const auto low = lanes_of(byte_of<1>(low_nibbles(all)));
  const auto high = lanes_of(byte_of<1>(high_nibbles(all)));
  for (std::size_t n = 0; n < 16; ++n) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(parts[i][n], bytes[4 * n + i]);
    EXPECT_EQ(low[n], bytes[4 * n + 1] & 15);
    EXPECT_EQ(high[n], bytes[4 * n + 1] >> 4);
  }
}

TEST(IntLanes, RoundToTheNearestEvenAndStoreTheLowBytes) {
  const float values[] = {0.0f, 0.5f,  1.5f,  2.5f,    -0.5f,   -1.5f, 126.5f, 127.0f,
                          3.4f, -3.6f, 99.9f, -127.0f, -126.5f, 1.0f,  -1.0f,  64.49f};
  const Lanes rounded = round_product(load(values), broadcast(1.0f));
  std::int8_t bytes[16];
  store_bytes(bytes, rounded);
  for (std::size_t n = 0; n < 16; ++n) {
    EXPECT_EQ(bytes[n], static_cast<std::int8_t>(std::nearbyint(values[n]))) << values[n];
  }
  float none[16];
  store(none, round_product(broadcast(std::numeric_limits<float>::quiet_NaN()), broadcast(1.0f)));
  for (float value : none) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
