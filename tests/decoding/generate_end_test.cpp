// tests/decoding/generate_end_test.cpp - end tokens, stop tokens and their minimum, with a model
// that recites a script.
#include "decoding/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

using Store = kv::Contiguous<codec::F32>;
using Tokens = std::vector<Token>;

const Tokens kPrompt = {2, 3};

// The model answers the prompt with `answer`, then with zeros.
Generation recite(const Tokens& answer, const GenerateOptions& options) {
  Tokens script = kPrompt;
  script.insert(script.end(), answer.begin(), answer.end());
  script.resize(32, 0);
  const model::Decoder decoder = reference::reciting_decoder(script, 12);
  Store store(decoder.config().geometry(), 32);
  model::Workspace workspace(decoder.config(), {.rows = 4});
  return generate(decoder, store, workspace, kPrompt, options);
}

TEST(End, AnyTokenOfTheListEndsAndIsReported) {
  const Generation result = recite({5, 9, 5}, {.stop = {.end_tokens = {1, 8, 9}}});
  EXPECT_EQ(result.tokens, (Tokens{5}));
  EXPECT_EQ(result.reason, Reason::end_token);
  EXPECT_EQ(result.ended_by, Token{9});
  EXPECT_EQ(result.statistics.generated_tokens, 1);
}

TEST(End, AnotherEndTokenDoesNotEnd) {
  for (const Tokens& ends : {Tokens{1}, Tokens{}}) {
    const Generation result =
        recite({5, 9, 5}, {.max_new_tokens = 3, .stop = {.end_tokens = ends}});
    EXPECT_EQ(result.tokens, (Tokens{5, 9, 5}));
    EXPECT_EQ(result.reason, Reason::length);
    EXPECT_FALSE(result.ended_by.has_value());
  }
}

TEST(End, AtTheFirstTokenLeavesNone) {
  const Generation result = recite({9}, {.stop = {.end_tokens = {9}}});
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.ended_by, Token{9});
  EXPECT_EQ(result.statistics.generated_tokens, 0);
}

TEST(End, BannedTokensAreNeverSampled) {
  const Generation result = recite({5, 9, 5}, {.max_new_tokens = 3, .banned_tokens = {9, 0}});
  EXPECT_EQ(result.tokens, (Tokens{5, 1, 5}));  // of equal others the lowest id
  EXPECT_THROW(recite({5}, {.banned_tokens = {12}}), std::invalid_argument);
}

// The end token is not fed, and every token before it was.
TEST(End, LeavesTheWholeTextInTheStore) {
  const model::Decoder decoder = reference::reciting_decoder(Tokens{2, 3, 5, 6, 9, 0}, 12);
  model::Workspace workspace(decoder.config(), {.rows = 4, .logit_rows = 4});
  const auto held = [&](auto&&... drafter) {
    Store store(decoder.config().geometry(), 32);
    generate(
        decoder, store, workspace, kPrompt, {.stop = {.end_tokens = {9}}},
        [](Token) { return true; }, drafter...);
    return store.end();
  };
  NgramDrafter drafter{.shortest = 1};
  EXPECT_EQ(held(), 4);
  EXPECT_EQ(held(drafter), 4);
}

TEST(End, ComesWithAStopTokenOfTheCaller) {
  const Generation result =
      recite({5, 9, 5}, {.stop = {.end_tokens = {1, 8, 9}, .stop_tokens = {5}}});
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.reason, Reason::stop_token);
  EXPECT_EQ(result.ended_by, Token{5});
}

TEST(End, IgnoredEndTokensAreTextAndStopTokensStillAct) {
  const StopOptions stop{.end_tokens = {1, 8, 9}, .stop_tokens = {7}, .ignore_end_tokens = true};
  const Generation result = recite({5, 9, 1, 7, 5}, {.stop = stop});
  EXPECT_EQ(result.tokens, (Tokens{5, 9, 1}));
  EXPECT_EQ(result.reason, Reason::stop_token);
  EXPECT_EQ(result.ended_by, Token{7});
}

TEST(End, IsImpossibleBeforeTheMinimum) {
  const StopOptions stop{.end_tokens = {1, 8, 9}, .min_new_tokens = 3};
  const Generation result = recite({1, 9, 8, 9, 5}, {.stop = stop});
  EXPECT_EQ(result.tokens, (Tokens{0, 0, 0}));  // of equal others the lowest id
  EXPECT_EQ(result.reason, Reason::end_token);
  EXPECT_EQ(result.ended_by, Token{9});
}

TEST(End, IsImpossibleBeforeTheMinimumWhenSampling) {
  const StopOptions stop{.end_tokens = {1, 8, 9}, .min_new_tokens = 20};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Generation result = recite(
        {}, {.max_new_tokens = 20, .stop = stop, .sampler = {.temperature = 5, .seed = seed}});
    ASSERT_EQ(result.tokens.size(), 20u);
    for (Token token : result.tokens) EXPECT_TRUE(token != 1 && token != 8 && token != 9);
  }
}

TEST(End, AVocabularyOfEndTokensLeavesNoCandidate) {
  StopOptions stop{.min_new_tokens = 1};
  for (Token token = 0; token < 12; ++token) stop.end_tokens.push_back(token);
  EXPECT_THROW(recite({5}, {.stop = stop}), std::invalid_argument);
}

TEST(End, IsNotSampledAfterTheLastNewToken) {
  const Generation result = recite({5, 9}, {.max_new_tokens = 1, .stop = {.end_tokens = {9}}});
  EXPECT_EQ(result.tokens, (Tokens{5}));
  EXPECT_EQ(result.reason, Reason::length);
}

TEST(End, EveryReasonHasAName) {
  EXPECT_EQ(name(Reason::length), "length");
  EXPECT_EQ(name(Reason::end_token), "end token");
  EXPECT_EQ(name(Reason::stop_token), "stop token");
  EXPECT_EQ(name(Reason::cache_full), "cache full");
  EXPECT_EQ(name(Reason::positions_full), "positions full");
  EXPECT_EQ(name(Reason::sink), "sink");
}

}  // namespace
}  // namespace decant::decoding
