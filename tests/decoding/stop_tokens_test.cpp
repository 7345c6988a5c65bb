// tests/decoding/stop_tokens_test.cpp - which ids end a run, and when they are impossible.
#include <decant/decoding/stop.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace decant::decoding {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

TEST(StopOptions, EveryEndTokenOfTheListEnds) {
  const StopOptions stops{.end_tokens = {1, 8, 9}};
  for (Token token : {1, 8, 9}) EXPECT_TRUE(stops.is_end(token)) << token;
  for (Token token : {0, 2, 5, 7, 10}) EXPECT_FALSE(stops.is_end(token)) << token;
  EXPECT_FALSE(stops.is_stop(9));
}

TEST(StopOptions, MayBeNone) {
  const StopOptions stops;
  EXPECT_FALSE(stops.is_end(0));
  EXPECT_FALSE(stops.is_stop(0));
}

TEST(StopOptions, OfTheCallerActWhenEndTokensAreIgnored) {
  const StopOptions stops{.end_tokens = {1, 8, 9}, .stop_tokens = {5}, .ignore_end_tokens = true};
  EXPECT_FALSE(stops.is_end(9));
  EXPECT_TRUE(stops.is_stop(5));
  EXPECT_FALSE(stops.is_stop(9));
}

TEST(StopOptions, AreBannedOnlyBeforeTheMinimum) {
  const StopOptions stops{.end_tokens = {1, 4}, .stop_tokens = {3}, .min_new_tokens = 3};
  for (Index generated : {0, 1, 2}) {
    std::vector<float> logits(5, 0.5f);
    stops.ban_early(logits, generated);
    EXPECT_EQ(logits, (std::vector<float>{.5f, kBanned, .5f, kBanned, kBanned}));
  }
  std::vector<float> logits(5, 0.5f);
  stops.ban_early(logits, 3);
  EXPECT_EQ(logits, std::vector<float>(5, 0.5f));
}

TEST(StopOptions, IgnoredEndTokensAreNotBanned) {
  const StopOptions stops{
      .end_tokens = {1}, .stop_tokens = {3}, .ignore_end_tokens = true, .min_new_tokens = 1};
  std::vector<float> logits(4, 0.5f);
  stops.ban_early(logits, 0);
  EXPECT_EQ(logits, (std::vector<float>{.5f, .5f, .5f, kBanned}));
}

TEST(StopOptions, IdsOutsideTheVocabularyAreHarmless) {
  const StopOptions stops{.end_tokens = {-1, 4, 50256}, .min_new_tokens = 1};
  std::vector<float> logits(4, 0.5f);
  stops.ban_early(logits, 0);
  EXPECT_EQ(logits, std::vector<float>(4, 0.5f));
}

}  // namespace
}  // namespace decant::decoding
