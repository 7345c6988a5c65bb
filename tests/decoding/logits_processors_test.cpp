// tests/decoding/logits_processors_test.cpp - a caller's functions of history and logits, in every
// kind of run.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/decoding/service.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using F32 = codec::F32;
using Rows = std::vector<std::vector<float>>;

constexpr float kBanned = -std::numeric_limits<float>::infinity();

class LogitsProcessors : public testing::Test {
 protected:
  template <class... D>
  Generation run(const GenerateOptions& options, D&... drafter) {
    kv::Contiguous<F32> store(decoder_.config().geometry(), 80);
    return generate(
        decoder_, store, workspace_, prompt_, options, [](Token) { return true; }, drafter...);
  }
  GenerateOptions sampled() const {
    return {.max_new_tokens = 16, .sampler = {.temperature = 1.0, .seed = 8}};
  }

  model::Decoder decoder_ = reference::toy_decoder();
  std::vector<Token> prompt_ = trial::random_tokens(decoder_.config(), 20, 3);
  model::Workspace workspace_{decoder_.config(), {.rows = 24, .logit_rows = 8, .sequences = 8}};
};

TEST_F(LogitsProcessors, SeeTheModelsLogitsInTheirOrderBeforeAnythingElse) {
  Rows rows;
  GenerateOptions options = sampled();
  options.logits_processors = {[&](const History&, std::span<float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  }};
  const std::vector<Token> tokens = run(options).tokens;
  const Rows expected = std::exchange(rows, {});
  ASSERT_EQ(expected.size(), tokens.size());

  options.sampler.penalties = {.repetition = 1.5, .bias = {{3, 4.0f}}};
  options.banned_tokens = {1};
  options.max_new_tokens = 1;
  options.logits_processors.push_back([&](const History&, std::span<float> logits) {
    EXPECT_TRUE(std::ranges::equal(logits, expected[0]));
    std::ranges::fill(logits, 0.0f);
  });
  options.logits_processors.push_back([](const History&, std::span<float> logits) {
    EXPECT_EQ(std::ranges::count(logits, 0.0f), std::ssize(logits));
  });
  run(options);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], expected[0]);
}

TEST_F(LogitsProcessors, SeeThePromptAndTheTokensSoFar) {
  std::vector<std::vector<Token>> seen;
  GenerateOptions options = sampled();
  options.logits_processors = {[&](const History& history, std::span<float>) {
    seen.emplace_back(history.tokens.begin(), history.tokens.end());
    EXPECT_EQ(history.prompt, std::ssize(prompt_));
  }};
  const std::vector<Token> tokens = run(options).tokens;
  std::vector<Token> text = prompt_;
  ASSERT_EQ(seen.size(), tokens.size());
  for (std::size_t at = 0; at < seen.size(); ++at) {
    EXPECT_EQ(seen[at], text);
    text.push_back(tokens[at]);
  }
}

TEST_F(LogitsProcessors, DoNotLiftABan) {
  GenerateOptions options = sampled();
  options.max_new_tokens = 3;
  options.logits_processors = {[](const History&, std::span<float> logits) {
    std::ranges::fill(logits, 0.0f);
    logits[7] = logits[9] = logits[11] = 1000.0f;
  }};
  options.banned_tokens = {7};
  options.stop.stop_tokens = {9};
  options.stop.min_new_tokens = 3;
  EXPECT_EQ(run(options).tokens, (std::vector<Token>{11, 11, 11}));
}

TEST_F(LogitsProcessors, ActOnDraftsSoThatTheseChangeNoToken) {
  GenerateOptions options = sampled();
  options.max_new_tokens = 40;
  options.sampler.xtc = 0.5;
  options.sampler.xtc_threshold = 0.02;
  options.sampler.mirostat = 2.0;
  options.logits_processors = {[](const History& history, std::span<float> logits) {
    logits[static_cast<std::size_t>(history.tokens.back() / 2)] += 6.0f;  // repeats soon
  }};
  const std::vector<Token> expected = run(options).tokens;
  NgramDrafter drafter{.shortest = 1};
  const Generation drafted = run(options, drafter);
  EXPECT_EQ(drafted.tokens, expected);
  EXPECT_GT(drafted.statistics.accepted_tokens, 3);
  EXPECT_GT(drafted.statistics.proposed_tokens, drafted.statistics.accepted_tokens);
}

TEST_F(LogitsProcessors, ActInSamplesBeamsAndServices) {
  const auto odd_alone = [](const History&, std::span<float> logits) {
    for (std::size_t token = 0; token < logits.size(); token += 2) logits[token] = kBanned;
  };
  const auto expect_odd = [](const std::vector<Token>& tokens) {
    EXPECT_EQ(tokens.size(), 16u);
    EXPECT_TRUE(std::ranges::all_of(tokens, [](Token token) { return token % 2 == 1; }));
  };
  kv::PagePool<F32> pool(decoder_.config().geometry(), 60, 16);
  GenerateOptions options = sampled();
  options.logits_processors = {odd_alone};
  {
    kv::Paged<F32> store(pool);
    for (const Generation& answer : generate_samples(decoder_, store, workspace_, prompt_, options,
                                                     4, [](Index, Token) { return true; })) {
      expect_odd(answer.tokens);
    }
    const BeamOptions beams = {
        .answers = 4, .max_new_tokens = 16, .logits_processors = {odd_alone}};
    for (const BeamAnswer& answer : beam_search(decoder_, store, workspace_, prompt_, beams)) {
      expect_odd(answer.tokens);
    }
  }
  Scheduler scheduler(decoder_, workspace_, pool);
  Service service(scheduler);
  Stream stream = service.submit({.prompt = prompt_, .options = options});
  expect_odd(stream.wait().generation.tokens);
}

TEST_F(LogitsProcessors, ThatFailEndTheirRun) {
  GenerateOptions options = sampled();
  options.logits_processors = {
      [](const History&, std::span<float> logits) { logits[5] = std::nanf(""); }};
  EXPECT_THROW(run(options), BadLogits);
  options.logits_processors = {
      [](const History&, std::span<float> logits) { std::ranges::fill(logits, kBanned); }};
  EXPECT_THROW(run(options), NoCandidate);
  options.logits_processors = {
      [](const History&, std::span<float>) { throw std::runtime_error("a processor"); }};
  EXPECT_THROW(run(options), std::runtime_error);
}

}  // namespace
}  // namespace decant::decoding
