// tests/decoding/log_probabilities_test.cpp - log-probabilities, ties and refusals.
#include <decant/decoding/log_probabilities.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

TEST(LogProbabilities, AreThoseOfTheSoftmax) {
  const std::vector<float> logits = {3, 2, 1};
  const LogProbabilities found = log_probabilities(logits, 2, 2);
  EXPECT_EQ(found.taken.token, 2);
  EXPECT_NEAR(std::exp(found.taken.value), .0900, 5e-5);
  ASSERT_EQ(found.top.size(), 2u);
  EXPECT_EQ(found.top[0].token, 0);
  EXPECT_NEAR(std::exp(found.top[0].value), .6652, 5e-5);
  EXPECT_NEAR(std::exp(found.top[1].value), .2447, 5e-5);
}

TEST(LogProbabilities, OfEqualLogitsAreInTheOrderOfIds) {
  const LogProbabilities found = log_probabilities(std::vector<float>{1, 2, 2, 2}, 3, 2);
  EXPECT_EQ(found.top[0].token, 1);
  EXPECT_EQ(found.top[1].token, 2);
}

TEST(LogProbabilities, AllocateOnlyForTheCount) {
  const std::vector<float> logits(5000, 1.0f);
  EXPECT_LE(log_probabilities(logits, 7, 3).top.capacity(), 3u);
  EXPECT_EQ(log_probabilities(logits, 7, 0).top.capacity(), 0u);
}

TEST(LogProbabilities, OfABannedTokenIsMinusInfinity) {
  const float banned = -std::numeric_limits<float>::infinity();
  const LogProbabilities found = log_probabilities(std::vector<float>{banned, 0}, 0, 9);
  EXPECT_EQ(found.taken.value, -std::numeric_limits<double>::infinity());
  ASSERT_EQ(found.top.size(), 2u);
  EXPECT_EQ(found.top[0], (LogProbability{1, 0.0}));
}

TEST(LogProbabilities, RefuseInvalidRows) {
  const std::vector<float> logits = {1, 2};
  EXPECT_THROW(log_probabilities(logits, 2, 1), std::invalid_argument);
  EXPECT_THROW(log_probabilities(logits, -1, 1), std::invalid_argument);
  EXPECT_THROW(log_probabilities(logits, 0, -1), std::invalid_argument);
  EXPECT_THROW(log_probabilities(std::vector<float>{1, std::nanf("")}, 0, 1), BadLogits);
}

}  // namespace
}  // namespace decant::decoding
