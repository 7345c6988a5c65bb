// tests/attention/rope_test.cpp - rotary positions against the double-precision reference, and
// tables.
#include <decant/attention/rope.hpp>

#include "reference/model.hpp"
#include "reference/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;
using attention::LinearScaling;
using attention::Llama3Scaling;
using attention::Pairing;
using attention::Rope;

std::vector<float> rotated(std::vector<float> head, const Rope& rope, Position position) {
  const auto frequencies = attention::frequencies(rope, std::ssize(head));
  std::vector<float> cosines(frequencies.size());
  std::vector<float> sines(frequencies.size());
  attention::angles(position, frequencies, cosines, sines);
  attention::rotate(head, cosines, sines, rope.pairing);
  return head;
}

reference::Vector reference_rotated(const std::vector<float>& head, const Rope& rope,
                                    Position position) {
  reference::Vector result(head.begin(), head.end());
  reference::rotate(result, rope, position);
  return result;
}

std::vector<float> random_head(Index size, std::uint64_t seed) {
  std::vector<float> head(static_cast<std::size_t>(size));
  for (float& number : head) number = static_cast<float>(4 * reference::noise(seed++));
  return head;
}

double score(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::string refusal(const Rope& rope, Index head_dim) {
  try {
    attention::check(rope, head_dim);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

bool names(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

TEST(Rope, RotatesLikeTheReferenceInEveryVariant) {
  const std::vector<attention::Scaling> scalings = {attention::Unscaled{}, LinearScaling{8},
                                                    Llama3Scaling{8, 1, 4, 64}};
  std::uint64_t seed = 0;
  for (const attention::Scaling& scaling : scalings) {
    for (Pairing pairing : {Pairing::half_split, Pairing::interleaved}) {
      for (const auto& [head_dim, rotary_dim] :
           std::vector<std::pair<Index, Index>>{{2, 0}, {6, 0}, {8, 4}, {64, 0}, {80, 20}}) {
        for (Position position : {0, 1, 2, 17, 511, 4095, 131071}) {
          const Rope rope{rotary_dim, 10000.0, pairing, scaling};
          const auto head = random_head(head_dim, seed += 1000);
          EXPECT_LE(reference::max_difference(rotated(head, rope, position),
                                              reference_rotated(head, rope, position)),
                    4e-7)
              << head_dim << "/" << rotary_dim << " at " << position;
        }
      }
    }
  }
}

TEST(Rope, Llama3ScalingOfAHeadOf128) {
  const Rope rope{0, 5e5, Pairing::half_split, Llama3Scaling{8, 1, 4, 8192}};
  const auto scaled = attention::frequencies(rope, 128);
  const auto plain = attention::frequencies({0, 5e5}, 128);
  ASSERT_EQ(scaled.size(), 64u);
  for (std::size_t i = 0; i <= 28; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  for (std::size_t i = 35; i < 64; ++i) EXPECT_NEAR(scaled[i] / plain[i], 0.125, 1e-12) << i;
  EXPECT_NEAR(scaled[28], 3.211445995e-3, 1e-12);
  EXPECT_NEAR(scaled[29], 2.166570764e-3, 1e-12);
  EXPECT_NEAR(scaled[31], 8.567514129e-4, 1e-13);
  EXPECT_NEAR(scaled[34], 1.785078128e-4, 1e-13);
  EXPECT_NEAR(scaled[35], 9.556212354e-5, 1e-14);
  EXPECT_NEAR(scaled[63], 3.068925989e-7, 1e-16);
  EXPECT_NEAR(scaled[29] / plain[29], 0.828168, 1e-6);
  EXPECT_NEAR(scaled[31] / plain[31], 0.493507, 1e-6);
  EXPECT_NEAR(scaled[34] / plain[34], 0.190211, 1e-6);
}

TEST(Rope, Llama3ScalingOfAHeadOf64) {
  const Rope rope{0, 5e5, Pairing::half_split, Llama3Scaling{32, 1, 4, 8192}};
  const auto scaled = attention::frequencies(rope, 64);
  const auto plain = attention::frequencies({0, 5e5}, 64);
  for (std::size_t i = 0; i <= 14; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  for (std::size_t i = 18; i < 32; ++i) EXPECT_NEAR(scaled[i] / plain[i], 1.0 / 32, 1e-12) << i;
  EXPECT_NEAR(scaled[15], 1.290547928e-3, 1e-12);
  EXPECT_NEAR(scaled[16], 4.295567966e-4, 1e-13);
  EXPECT_NEAR(scaled[17], 9.708287803e-5, 1e-14);
  EXPECT_NEAR(scaled[18], 1.946163818e-5, 1e-14);
  EXPECT_NEAR(scaled[15] / plain[15], 0.605573, 1e-6);
  EXPECT_NEAR(scaled[16] / plain[16], 0.303743, 1e-6);
  EXPECT_NEAR(scaled[17] / plain[17], 0.103448, 1e-6);
}

TEST(Rope, LinearScalingDividesThePosition) {
  const auto head = random_head(32, 7);
  const auto scaled = rotated(head, {0, 1e6, Pairing::half_split, LinearScaling{8}}, 1000);
  EXPECT_LE(reference::max_difference(scaled, rotated(head, {0, 1e6}, 125)), 4e-7);
}

TEST(Rope, PartialRotationDividesTheExponentByRotaryDim) {
  const auto frequencies = attention::frequencies({64, 1e4}, 256);
  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_NEAR(frequencies[1], 0.749894, 1e-6);
}

TEST(Rope, PartialRotationPairsWithinRotaryDim) {
  for (std::size_t channel = 0; channel < 256; ++channel) {
    std::vector<float> unit(256, 0.0f);
    unit[channel] = 1.0f;
    const auto split = rotated(unit, {64, 1e4, Pairing::half_split}, 1);
    const auto woven = rotated(unit, {64, 1e4, Pairing::interleaved}, 1);
    if (channel >= 64) {
      EXPECT_EQ(std::memcmp(split.data(), unit.data(), 256 * sizeof(float)), 0) << channel;
      EXPECT_EQ(std::memcmp(woven.data(), unit.data(), 256 * sizeof(float)), 0) << channel;
      continue;
    }
    for (std::size_t other = 0; other < 256; ++other) {
      EXPECT_EQ(split[other] != 0.0f, other < 64 && other % 32 == channel % 32) << channel;
      EXPECT_EQ(woven[other] != 0.0f, other < 64 && other / 2 == channel / 2) << channel;
    }
  }
}

TEST(Rope, ChannelsThatAreNotRotatedAreUnchanged) {
  auto head = random_head(80, 3);
  head[40] = std::numeric_limits<float>::quiet_NaN();
  head[41] = -0.0f;
  const auto result = rotated(head, {32, 1e4}, 12345);
  EXPECT_EQ(std::memcmp(result.data() + 32, head.data() + 32, 48 * sizeof(float)), 0);
}

TEST(Rope, PositionZeroChangesNothing) {
  const auto head = random_head(64, 5);
  EXPECT_EQ(rotated(head, {}, 0), head);
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const auto query = random_head(64, 11);
  const auto key = random_head(64, 1011);
  const double near = score(rotated(query, {}, 5), rotated(key, {}, 2));
  const double far = score(rotated(query, {}, 100005), rotated(key, {}, 100002));
  EXPECT_NEAR(near, far, 2e-5);
}

TEST(Rope, AFarPositionIsAsExactAsANearOne) {
  const std::vector<float> unit = {1.0f, 0.0f};
  for (Position position : {Position{1}, Position{1'000'003}, (Position{1} << 33) + 1}) {
    const auto result = rotated(unit, {}, position);
    const auto angle = static_cast<long double>(position);
    EXPECT_NEAR(result[0], static_cast<double>(std::cos(angle)), 1e-7) << position;
    EXPECT_NEAR(result[1], static_cast<double>(std::sin(angle)), 1e-7) << position;
  }
}

TEST(Rope, InterleavedOnPermutedRowsEqualsHalfSplit) {
  const auto query = random_head(8, 21);
  const auto key = random_head(8, 1021);
  const auto permuted = [](const std::vector<float>& head) {
    std::vector<float> result;
    for (std::size_t from : {0u, 4u, 1u, 5u, 2u, 6u, 3u, 7u}) result.push_back(head[from]);
    return result;
  };
  const Rope woven{0, 1e4, Pairing::interleaved};
  EXPECT_NEAR(score(rotated(query, {}, 9), rotated(key, {}, 4)),
              score(rotated(permuted(query), woven, 9), rotated(permuted(key), woven, 4)), 1e-6);
  EXPECT_EQ(permuted(rotated(query, {}, 9)), rotated(permuted(query), woven, 9));
}

TEST(Rope, RefusesInvalidRotations) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal({}, 8), "");
  EXPECT_TRUE(names(refusal({}, 15), "rotary_dim 15"));
  EXPECT_TRUE(names(refusal({5}, 8), "rotary_dim 5"));
  EXPECT_TRUE(names(refusal({10}, 8), "rotary_dim 10"));
  EXPECT_TRUE(names(refusal({-2}, 8), "rotary_dim -2"));
  EXPECT_TRUE(names(refusal({0, 0.0}, 8), "theta"));
  EXPECT_TRUE(names(refusal({0, nan}, 8), "theta"));
  const auto scaled = [](attention::Scaling scaling) {
    return refusal({0, 1e4, Pairing::half_split, scaling}, 8);
  };
  EXPECT_TRUE(names(scaled(LinearScaling{0}), "factor"));
  EXPECT_TRUE(names(scaled(LinearScaling{nan}), "factor"));
  EXPECT_TRUE(names(scaled(Llama3Scaling{-8, 1, 4, 8192}), "factor"));
  EXPECT_TRUE(names(scaled(Llama3Scaling{8, 4, 4, 8192}), "high_freq_factor"));
  EXPECT_TRUE(names(scaled(Llama3Scaling{8, 1, nan, 8192}), "high_freq_factor"));
  EXPECT_TRUE(names(scaled(Llama3Scaling{8, 1, 4, 0}), "original positions"));
}

TEST(Rope, RefusesToRotateMoreThanTheHead) {
  std::vector<float> head(6, 1.0f);
  const std::vector<float> four(4, 1.0f);
  const std::vector<float> two(2, 1.0f);
  EXPECT_THROW(attention::rotate(head, four, four, Pairing::half_split), std::invalid_argument);
  EXPECT_THROW(attention::rotate(head, two, four, Pairing::interleaved), std::invalid_argument);
  EXPECT_EQ(head, std::vector<float>(6, 1.0f));
}

}  // namespace
