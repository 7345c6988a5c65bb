// tests/decoding/penalties_test.cpp - which tokens penalties count, what they cost, and when.
#include <decant/decoding/penalties.hpp>
#include <decant/decoding/sampler.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();
using Row = std::vector<float>;
using Ids = std::vector<Token>;

Row penalised(const PenaltyOptions& options, Row logits, const Ids& tokens, Index prompt) {
  Penalties penalties(options, std::ssize(logits));
  penalties.apply(logits, {tokens, prompt});
  return logits;
}

// The prompt is 7, 7, 8, and the new tokens are 7, 9, 9.
TEST(Penalties, CountThePromptForRepetitionAlone) {
  const PenaltyOptions options = {.repetition = 2, .presence = .5, .frequency = .1};
  const Row row = penalised(options, Row(12, 4.0f), {7, 7, 8, 7, 9, 9}, 3);
  EXPECT_FLOAT_EQ(row[7], 1.4f);
  EXPECT_FLOAT_EQ(row[8], 2.0f);
  EXPECT_FLOAT_EQ(row[9], 1.3f);
  EXPECT_EQ(row[6], 4.0f);
  const Row first = penalised(options, Row(12, 4.0f), {7, 7, 8}, 3);
  EXPECT_EQ(first[7], 2.0f);
  EXPECT_EQ(first[8], 2.0f);
  EXPECT_EQ(first[9], 4.0f);
}

TEST(Penalties, CountTheLastTokensAndThePromptUnderLlamaCpp) {
  PenaltyOptions options = presets::llama_cpp().penalties;
  options.presence = 1;
  Ids tokens(63, 2);
  tokens.insert(tokens.begin(), 1);  // 64 tokens, the first of them 1
  EXPECT_EQ(penalised(options, Row(4, 0.0f), tokens, 10), (Row{0, -1, -1, 0}));
  tokens.push_back(3);
  EXPECT_EQ(penalised(options, Row(4, 0.0f), tokens, 10), (Row{0, 0, -1, -1}));
}

// Of the last two tokens, one is of the prompt and one is new.
TEST(Penalties, TellPromptFromTextAmongTheLastTokens) {
  EXPECT_EQ(penalised({.presence = 1, .last = 2}, Row(5, 0.0f), {1, 2, 3, 4}, 3),
            (Row{0, 0, 0, 0, -1}));
  EXPECT_EQ(penalised({.presence = 1, .last = 2, .presence_of_prompt = true}, Row(5, 0.0f),
                      {1, 2, 3, 4}, 3),
            (Row{0, 0, 0, -1, -1}));
}

TEST(Penalties, MultiplyNegativeLogits) {
  EXPECT_EQ(penalised({.repetition = 2}, {-1, 3, 0}, {0, 1, 2, 0}, 0), (Row{-2, 1.5, 0}));
}

TEST(Penalties, LeaveARowAloneWhenAllAreOff) {
  EXPECT_EQ(penalised({}, {1, 2, 3}, {0, 0, 1}, 1), (Row{1, 2, 3}));
}

TEST(Penalties, CarryNothingFromOneRowToTheNext) {
  Penalties penalties({.frequency = 1, .dry = {.multiplier = 1}}, 3);
  for (int turn = 0; turn < 3; ++turn) {
    Row row(3, 0.0f);
    penalties.apply(row, {std::vector<Token>{0, 0, 1}, 0});
    EXPECT_EQ(row, (Row{-2, -1, 0}));
  }
}

TEST(Penalties, AddBiasesAndBan) {
  const Row row = penalised({.bias = {{1, 2.5f}, {2, kNoLogit}, {1, .5f}}}, {0, 0, 0}, {}, 0);
  EXPECT_EQ(row, (Row{0, 3, kNoLogit}));
}

// 1 2 3 4 1 2 3: a 4 would continue the repetition of 1 2 3, a 2 or a 3 continues none.
TEST(Dry, PenalisesTokensThatContinueARepetition) {
  const PenaltyOptions options = {.dry = {.multiplier = 2, .base = 3, .allowed_length = 2}};
  EXPECT_EQ(penalised(options, Row(6, 1.0f), {1, 2, 3, 4, 1, 2, 3}, 0),
            (Row{1, 1, 1, 1, 1 - 2 * 3, 1}));
  EXPECT_EQ(penalised(options, Row(6, 1.0f), {2, 3, 4, 1, 2, 3}, 0), (Row{1, 1, 1, 1, -1, 1}));
  EXPECT_EQ(penalised(options, Row(6, 1.0f), {3, 4, 1, 2, 3}, 0), Row(6, 1.0f));
}

TEST(Dry, CountsTheLongestOfSeveralRepetitions) {
  const PenaltyOptions options = {.dry = {.multiplier = 1, .base = 2, .allowed_length = 1}};
  // 3 follows "1 2" once and "2" twice; 4 follows "2" alone.
  EXPECT_EQ(penalised(options, Row(5, 0.0f), {1, 2, 3, 2, 4, 1, 2}, 0), (Row{0, 0, 0, -2, -1}));
}

TEST(Dry, DoesNotLookBeyondABreaker) {
  PenaltyOptions options = {.dry = {.multiplier = 1, .base = 2, .allowed_length = 1}};
  const Ids tokens = {1, 2, 3, 4, 1, 2, 3};
  EXPECT_EQ(penalised(options, Row(5, 0.0f), tokens, 0)[4], -4.0f);
  options.dry.breakers = {2};
  EXPECT_EQ(penalised(options, Row(5, 0.0f), tokens, 0)[4], -1.0f);
  options.dry.breakers = {3};
  EXPECT_EQ(penalised(options, Row(5, 0.0f), tokens, 0)[4], 0.0f);
  options.dry = {.multiplier = 1, .base = 2, .allowed_length = 1, .last = 5};
  EXPECT_EQ(penalised(options, Row(5, 0.0f), tokens, 0)[4], -1.0f);
}

// 2 would continue "1" and 3 "1 2"; a breaker is never penalised.
TEST(Dry, ExemptsABreaker) {
  PenaltyOptions options = {.dry = {.multiplier = 1, .base = 2, .allowed_length = 1}};
  const Ids tokens = {1, 2, 1, 3, 1};
  EXPECT_EQ(penalised(options, Row(4, 0.0f), tokens, 0), (Row{0, 0, -1, -1}));
  options.dry.breakers = {2};
  EXPECT_EQ(penalised(options, Row(4, 0.0f), tokens, 0), (Row{0, 0, 0, -1}));
}

// Against the definition, spelled out.
TEST(Dry, AgreesWithALoopOverAllRepetitions) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 300; ++turn) {
    Ids tokens(random() % 40);
    for (Token& token : tokens) token = static_cast<Token>(random() % 3);
    Row expected(3, 0.0f);
    for (Token next = 0; next < 3; ++next) {
      std::size_t longest = 0;
      for (std::size_t at = 0; at < tokens.size(); ++at) {
        if (tokens[at] != next) continue;
        std::size_t run = 0;
        while (run < at && tokens[at - 1 - run] == tokens[tokens.size() - 1 - run]) ++run;
        longest = std::max(longest, run);
      }
      if (longest >= 2) {
        expected[static_cast<std::size_t>(next)] =
            static_cast<float>(-0.5 * std::pow(1.75, static_cast<double>(longest - 2)));
      }
    }
    EXPECT_EQ(penalised({.dry = {.multiplier = .5}}, Row(3, 0.0f), tokens, 0), expected);
  }
}

TEST(Dry, KeepsLogitsFinite) {
  const Row row = penalised({.dry = {.multiplier = 1, .base = 10}}, {0, kNoLogit}, Ids(2000, 0), 0);
  EXPECT_EQ(row[0], std::numeric_limits<float>::lowest());
  EXPECT_EQ(row[1], kNoLogit);
}

TEST(AllowOnly, BansTokensWhoseBitIsNotSet) {
  Row row(34, 1.0f);
  allow_only(row, std::vector<std::uint32_t>{0x80000001u, 2u});
  for (std::size_t token = 0; token < 34; ++token) {
    EXPECT_EQ(row[token], token == 0 || token == 31 || token == 33 ? 1.0f : kNoLogit) << token;
  }
  allow_only(row, {});
  EXPECT_EQ(row[0], 1.0f);
  EXPECT_THROW(allow_only(row, std::vector<std::uint32_t>{1}), std::invalid_argument);
}

// Biases ban the two tokens that the mask allows: no candidate is left, which is an error.
TEST(AllowOnly, LeavesNoCandidateWhenTheAllowedOnesAreBanned) {
  for (const SamplerOptions& options :
       {SamplerOptions{}, {.temperature = 1, .top_k = 2}, {.temperature = 1, .typical = .5}}) {
    Row row(4, 1.0f);
    Sampler sampler({options}, 4);
    Penalties({.bias = {{0, kNoLogit}, {1, kNoLogit}}}, 4).apply(row, {});
    allow_only(row, std::vector<std::uint32_t>{3});
    EXPECT_THROW(sampler.sample(row, 0, 0), NoCandidate);
    row[2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(sampler.sample(row, 0, 0), BadLogits);
  }
}

TEST(Penalties, RefuseInvalidOptions) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<PenaltyOptions> refused = {
      {.repetition = 0},      {.repetition = nan},
      {.presence = nan},      {.frequency = nan},
      {.last = -1},           {.dry = {.multiplier = -1}},
      {.dry = {.base = .5}},  {.dry = {.allowed_length = 0}},
      {.dry = {.last = -1}},  {.bias = {{4, 1.0f}}},
      {.bias = {{-1, 1.0f}}}, {.bias = {{0, infinite}}}};
  for (const PenaltyOptions& options : refused) {
    EXPECT_THROW(Penalties(options, 4), std::invalid_argument);
  }
  Row row(4, 0.0f);
  EXPECT_THROW(Penalties({.presence = 1}, 4).apply(row, {Ids{4}, 0}), std::invalid_argument);
  EXPECT_THROW(Penalties({}, 5).apply(row, {}), std::invalid_argument);
}

}  // namespace
}  // namespace decant::decoding
