// tests/attention/merge_test.cpp - partial results of attention: empty ones, and any split.
#include <decant/kernels/softmax.hpp>

#include "reference/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using namespace decant;
using kernels::SoftmaxPart;

// A part and its weighted values, of two dimensions.
struct Part {
  SoftmaxPart state;
  std::vector<float> values = {0.0f, 0.0f};

  void add(const Part& other) { kernels::merge(state, values, other.state, other.values); }
  float log_sum_exp() const { return kernels::log_sum_exp(state); }
  std::vector<float> output() const {
    std::vector<float> result = values;
    kernels::finish(state, result);
    return result;
  }
};

// The part that saw `scores`, where key j has the values (j, 1).
Part seen(std::span<const float> scores, std::size_t first) {
  Part part;
  for (float score : scores) part.state.maximum = std::max(part.state.maximum, score);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const float weight = std::exp(scores[j] - part.state.maximum);
    part.state.sum += weight;
    part.values[0] += weight * static_cast<float>(first + j);
    part.values[1] += weight;
  }
  return part;
}

Part one_key(float score, float value) {
  Part part = seen(std::span(&score, 1), 0);
  part.values = {value, 1.0f};
  return part;
}

bool same_bits(const Part& a, const Part& b) {
  return std::memcmp(&a.state, &b.state, sizeof a.state) == 0 &&
         std::memcmp(a.values.data(), b.values.data(), 2 * sizeof(float)) == 0;
}

TEST(Merge, ANaNPartMakesTheWholeNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Part& other : {Part{}, one_key(0.5f, 2.0f)}) {
    const Part lost = {{nan, nan}, {nan, nan}};
    Part left = lost;
    left.add(other);
    Part right = other;
    right.add(lost);
    for (const Part& part : {left, right}) {
      EXPECT_TRUE(std::isnan(part.log_sum_exp()));
      for (float number : part.output()) EXPECT_TRUE(std::isnan(number));
    }
  }
}

TEST(Merge, AnEmptyPartChangesNoBit) {
  Part part = seen(std::vector<float>{0.3f, -1.7f, 2.9f}, 0);
  part.values[1] = -0.0f;
  Part left = part;
  left.add(Part{});
  EXPECT_TRUE(same_bits(left, part));
  Part right;
  right.add(part);
  EXPECT_TRUE(same_bits(right, part));
}

TEST(Merge, TheValuesOfAnEmptyPartAreNotRead) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Part part = seen(std::vector<float>{1.0f, 2.0f}, 0);
  Part sum = part;
  sum.add(Part{{}, {nan, nan}});
  EXPECT_TRUE(same_bits(sum, part));
  Part empty{{}, {nan, nan}};
  EXPECT_EQ(empty.output(), (std::vector<float>{0.0f, 0.0f}));
  empty.add(part);
  EXPECT_TRUE(same_bits(empty, part));
}

TEST(Merge, TwoEmptyPartsGiveZeroAndMinusInfinity) {
  Part part;
  part.add(Part{});
  EXPECT_EQ(part.output(), (std::vector<float>{0.0f, 0.0f}));
  EXPECT_EQ(part.log_sum_exp(), -std::numeric_limits<float>::infinity());
}

TEST(Merge, AFarSmallerPartVanishes) {
  for (float gap : {200.0f, -200.0f}) {
    Part part = one_key(gap, 3.0f);
    part.add(one_key(0.0f, 5.0f));
    EXPECT_NEAR(part.output()[0], gap > 0 ? 3.0f : 5.0f, 1e-7);
    EXPECT_NEAR(part.log_sum_exp(), std::max(gap, 0.0f), 1e-7);
  }
}

TEST(Merge, LogSumExpAndOutputDoNotDependOnTheSplit) {
  std::vector<float> scores;
  for (int j = 0; j < 37; ++j) scores.push_back(static_cast<float>(j * 7 % 13 - 6));
  const reference::Vector exact(scores.begin(), scores.end());
  const double log_sum_exp = reference::log_sum_exp(exact);
  const reference::Vector weights = reference::softmax(exact);
  double mean = 0;
  for (std::size_t j = 0; j < 37; ++j) mean += weights[j] * static_cast<double>(j);

  for (std::size_t size : {37u, 19u, 8u, 1u, 36u}) {  // 36 leaves a part of one key
    Part part;
    for (std::size_t at = 0; at < 37; at += size) {
      part.add(seen(std::span(scores).subspan(at, std::min(size, 37 - at)), at));
    }
    EXPECT_NEAR(part.log_sum_exp() / log_sum_exp, 1, 1e-6) << size;
    EXPECT_NEAR(part.output()[0], mean, 2e-5) << size;
    EXPECT_NEAR(part.output()[1], 1, 1e-6) << size;
  }
}

}  // namespace
