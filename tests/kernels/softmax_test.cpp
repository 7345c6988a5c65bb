// tests/kernels/softmax_test.cpp - parts of a softmax, merged, against the whole of it in double.
#include <decant/kernels/softmax.hpp>

#include "law/bits.hpp"
#include "reference/softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

using namespace decant;
using kernels::SoftmaxPart;

struct Part {
  SoftmaxPart state;
  std::vector<float> values;
};

// Keys [first, last) of `scores`; key j has the values (j + d) % 7 for dimensions d.
Part part_of(std::span<const float> scores, std::size_t first, std::size_t last, std::size_t dim) {
  Part part{{}, std::vector<float>(dim, 0.0f)};
  for (std::size_t j = first; j < last; ++j) {
    part.state.maximum = std::max(part.state.maximum, scores[j]);
  }
  if (part.state.empty()) return part;
  for (std::size_t j = first; j < last; ++j) {
    const float weight = simd::exp(scores[j] - part.state.maximum);
    part.state.sum += weight;
    for (std::size_t d = 0; d < dim; ++d) {
      part.values[d] += weight * static_cast<float>((j + d) % 7);
    }
  }
  return part;
}

TEST(SoftmaxPart, MergesToTheWholeSoftmaxWhateverTheParts) {
  std::vector<float> scores = trial::noisy(200, 1, 15.0);
  scores[3] = scores[60] = -trial::kInfinity;
  const reference::Vector exact_scores = reference::to_double(scores);
  const reference::Vector weights = reference::softmax(exact_scores);
  for (std::size_t dim : {1u, 15u, 16u, 17u, 33u}) {
    for (std::size_t size : {1u, 7u, 64u, 199u, 200u}) {
      Part total = part_of(scores, 0, 0, dim);
      for (std::size_t at = 0; at < scores.size(); at += size) {
        const Part part = part_of(scores, at, std::min(at + size, scores.size()), dim);
        kernels::merge(total.state, total.values, part.state, part.values);
      }
      // Weights are positive, so every sum is off by its roundings: at most two a key.
      const double relative = 2 * 200 * 2 * trial::kRounding;
      EXPECT_NEAR(kernels::log_sum_exp(total.state), reference::log_sum_exp(exact_scores),
                  relative + 16 * 2 * trial::kRounding);
      kernels::finish(total.state, total.values);
      for (std::size_t d = 0; d < dim; ++d) {
        double exact = 0;
        for (std::size_t j = 0; j < 200; ++j) {
          exact += weights[j] * static_cast<double>((j + d) % 7);
        }
        EXPECT_NEAR(total.values[d], exact, 2 * relative * exact) << dim << " by " << size;
      }
    }
  }
}

TEST(SoftmaxPart, OfNothingIsZeroAndMinusInfinity) {
  SoftmaxPart none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(kernels::log_sum_exp(none), -trial::kInfinity);
  std::vector<float> values(20, trial::kNaN);
  kernels::finish(none, values);
  for (float value : values) EXPECT_EQ(value, 0.0f);
  kernels::merge(none, values, SoftmaxPart{}, std::vector<float>(20, trial::kNaN));
  EXPECT_TRUE(none.empty());
}

TEST(SoftmaxPart, LeavesMemoryBeyondItsValuesAlone) {
  for (std::size_t dim : {1u, 15u, 16u, 17u}) {
    std::vector<float> values(dim + 1, 2.0f);
    values.back() = -9.0f;
    SoftmaxPart part{1.0f, 4.0f};
    kernels::merge(part, std::span(values).first(dim), {1.0f, 4.0f}, std::vector<float>(dim, 6.0f));
    EXPECT_EQ(part.sum, 8.0f);
    EXPECT_EQ(values[dim - 1], 8.0f);
    kernels::finish(part, std::span(values).first(dim));
    EXPECT_EQ(values[dim - 1], 1.0f);
    EXPECT_EQ(values.back(), -9.0f);
  }
}

TEST(SoftmaxPart, TellsLargeScoresApart) {
  SoftmaxPart part{88000.0f, 1.0f};
  std::vector<float> values = {1.0f};
  kernels::merge(part, values, {88001.0f, 1.0f}, std::vector<float>{3.0f});
  kernels::finish(part, values);
  EXPECT_NEAR(values[0], (1 + 3 * std::exp(1.0)) / (1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(part.maximum, 88001.0f);
}

}  // namespace
