// tests/kernels/norm_test.cpp - both norms against the reference, and in the order of their sums.
#include <decant/kernels/norm.hpp>

#include "law/bits.hpp"
#include "reference/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;

const std::vector<Index> kSizes = {1,  2,  3,  5,  6,  7,  15, 16,  17,  31,
                                   32, 33, 63, 64, 65, 96, 97, 383, 384, 769};

// `values` between two canaries; the library sees only the values.
struct Guarded {
  explicit Guarded(std::vector<float> values, float canary = trial::kNaN)
      : size(values.size()), all(std::move(values)) {
    all.insert(all.begin(), canary);
    all.push_back(canary);
  }
  std::span<float> row() { return std::span(all).subspan(1, size); }

  std::size_t size;
  std::vector<float> all;
};

// Sixteen lane sums, then the tree.
float lane_sum(std::span<const float> terms) {
  std::array<float, 16> lanes{};
  for (std::size_t n = 0; n < terms.size(); ++n) lanes[n % 16] += terms[n];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t n = 0; n < half; ++n) lanes[n] += lanes[n + half];
  }
  return lanes[0];
}

// A squared sum of n terms is off by at most n roundings; scaling adds a few.
double bound(Index size) { return (static_cast<double>(size) / 16 + 16) * trial::kRounding; }

TEST(RmsNorm, MatchesTheReferenceAtEverySize) {
  for (Index size : kSizes) {
    for (float epsilon : {1e-5f, 0.0f, 2.0f}) {
      Guarded x(trial::noisy(size, 1, 3.0));
      Guarded weight(trial::noisy(size, 2, 2.0));
      Guarded out(std::vector<float>(static_cast<std::size_t>(size)), 7.0f);
      kernels::rms_norm(x.row(), weight.row(), epsilon, out.row());
      const reference::Vector exact =
          reference::rms_norm(reference::to_double(x.row()), reference::to_double(weight.row()),
                              static_cast<double>(epsilon));
      for (std::size_t n = 0; n < exact.size(); ++n) {
        ASSERT_NEAR(out.row()[n], exact[n], bound(size) * std::abs(exact[n])) << size << ", " << n;
      }
      EXPECT_EQ(out.all.front(), 7.0f);
      EXPECT_EQ(out.all.back(), 7.0f);
    }
  }
}

TEST(RmsNorm, AddsInSixteenLanesAndOneTree) {
  for (Index size : kSizes) {
    const std::vector<float> x = trial::noisy(size, 3);
    std::vector<float> squares;
    for (float value : x) squares.push_back(value * value);
    const float scale = 1.0f / std::sqrt(lane_sum(squares) / static_cast<float>(size) + 1e-6f);
    std::vector<float> expected;
    for (float value : x) expected.push_back(value * scale * 1.0f);
    std::vector<float> out(x.size());
    kernels::rms_norm(x, std::vector<float>(x.size(), 1.0f), 1e-6f, out);
    EXPECT_TRUE(trial::same_bits(expected, out)) << size;
  }
}

TEST(RmsNorm, OfZerosIsZero) {
  std::vector<float> out(20, 1.0f);
  kernels::rms_norm(std::vector<float>(20, 0.0f), trial::noisy(20, 4), 1e-6f, out);
  EXPECT_EQ(out, std::vector<float>(20, 0.0f));
}

TEST(LayerNorm, MatchesTheReferenceAtEverySize) {
  for (Index size : kSizes) {
    for (bool biased : {false, true}) {
      Guarded x(trial::noisy(size, 5, 3.0));
      Guarded weight(trial::noisy(size, 6, 2.0));
      Guarded bias(trial::noisy(biased ? size : 0, 7));
      Guarded out(std::vector<float>(static_cast<std::size_t>(size)), 7.0f);
      kernels::layer_norm(x.row(), weight.row(), bias.row(), 1e-5f, out.row());
      const reference::Vector exact = reference::layer_norm(
          reference::to_double(x.row()),
          {reference::to_double(weight.row()), reference::to_double(bias.row())}, 1e-5f);
      // The mean is off by roundings of values up to 3, which 1 / sqrt(variance) magnifies.
      const double spread = size == 1 ? std::sqrt(1e5) : 8;
      for (std::size_t n = 0; n < exact.size(); ++n) {
        ASSERT_NEAR(out.row()[n], exact[n], bound(size) * (std::abs(exact[n]) + 2 * spread))
            << size << ", " << n;
      }
      EXPECT_EQ(out.all.front(), 7.0f);
      EXPECT_EQ(out.all.back(), 7.0f);
    }
  }
}

// Far from zero a one-pass variance would be all cancellation.
TEST(LayerNorm, TakesTheVarianceAroundTheMean) {
  std::vector<float> x = trial::noisy(256, 8);
  for (float& value : x) value += 4096.0f;
  std::vector<float> out(256);
  kernels::layer_norm(x, std::vector<float>(256, 1.0f), {}, 1e-5f, out);
  const reference::Vector exact =
      reference::layer_norm(reference::to_double(x), {reference::Vector(256, 1.0), {}}, 1e-5);
  EXPECT_LT(reference::max_difference(out, exact), 0x1p-11 * 2);  // a unit of 4096 is 2^-11
}

TEST(Norms, MayWriteOverTheirInput) {
  for (Index size : {7, 16, 33}) {
    const std::vector<float> x = trial::noisy(size, 9);
    const std::vector<float> weight = trial::noisy(size, 10);
    std::vector<float> apart(x.size());
    std::vector<float> inside = x;
    kernels::rms_norm(x, weight, 1e-5f, apart);
    kernels::rms_norm(inside, weight, 1e-5f, inside);
    EXPECT_TRUE(trial::same_bits(apart, inside));
    inside = x;
    kernels::layer_norm(x, weight, weight, 1e-5f, apart);
    kernels::layer_norm(inside, weight, weight, 1e-5f, inside);
    EXPECT_TRUE(trial::same_bits(apart, inside));
  }
}

TEST(Norms, RefuseSizesThatDiffer) {
  std::vector<float> four(4, 1.0f);
  std::vector<float> five(5, 1.0f);
  EXPECT_THROW(kernels::rms_norm(four, five, 0.0f, four), std::invalid_argument);
  EXPECT_THROW(kernels::rms_norm(four, four, 0.0f, five), std::invalid_argument);
  EXPECT_THROW(kernels::layer_norm(four, five, {}, 0.0f, four), std::invalid_argument);
  EXPECT_THROW(kernels::layer_norm(four, four, five, 0.0f, four), std::invalid_argument);
  EXPECT_THROW(kernels::layer_norm(four, four, four, 0.0f, five), std::invalid_argument);
}

}  // namespace
