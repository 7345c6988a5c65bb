// tests/decoding/control_test.cpp - limits of time, cancellation, masks, penalties and
// log-probabilities of a run.
#include "decoding/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

namespace decant::decoding {
namespace {

using Cache = kv::Contiguous<codec::F32>;
using Ids = std::vector<Token>;

class Control : public testing::Test {
 protected:
  template <class Sink>
  Generation run(const GenerateOptions& options, const Sink& sink) {
    return generate(decoder_, store_, workspace_, prompt_, options, sink);
  }
  Generation run(const GenerateOptions& options) {
    return run(options, [](Token) { return true; });
  }

  model::Decoder decoder_ = reference::toy_decoder();
  Cache store_{decoder_.config().geometry(), 4000};
  model::Workspace workspace_{decoder_.config(), {.rows = 2}};
  Ids prompt_ = {5, 6, 7, 8, 9};
};

TEST_F(Control, EndsWhenTheTimeIsUp) {
  const Generation none = run({.max_new_tokens = 8, .max_seconds = 0});
  EXPECT_EQ(none.reason, Reason::time);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_LT(store_.end(), 5);
  const Generation all = run({.max_new_tokens = 8, .max_seconds = 1e6});
  EXPECT_EQ(all.reason, Reason::length);
  EXPECT_EQ(all.tokens.size(), 8u);
}

// With options that look back at the text: penalties count the new tokens of both runs, and not the
// prompt.
TEST_F(Control, EndsWhenCancelledAndContinuesAsIfItHadNot) {
  GenerateOptions options = {
      .max_new_tokens = 12,
      .stop = {.end_tokens = {1, 2}, .min_new_tokens = 7},
      .sampler = {.temperature = .9,
                  .seed = 4,
                  .penalties = {.repetition = 1.3, .presence = 1, .frequency = .5}}};
  const Generation whole = run(options);
  for (const std::size_t cut : {1u, 4u, 6u}) {
    store_.rewind(0);
    std::stop_source source;
    std::size_t seen = 0;
    options.cancel = source.get_token();
    options.max_new_tokens = 12;
    options.prompt_tokens = std::nullopt;
    options.cached_tokens = 0;
    const Generation begun = run(options, [&](Token) {
      if (++seen == cut) source.request_stop();
      return true;
    });
    EXPECT_EQ(begun.reason, Reason::cancelled);
    ASSERT_EQ(begun.tokens.size(), cut);
    EXPECT_TRUE(std::ranges::equal(begun.tokens, std::span(whole.tokens).first(cut)));
    const Generation never = run(options);
    EXPECT_EQ(never.reason, Reason::cancelled);
    EXPECT_TRUE(never.tokens.empty());

    Ids longer = prompt_;
    longer.insert(longer.end(), begun.tokens.begin(), begun.tokens.end());
    options.cancel = {};
    options.max_new_tokens = 12 - static_cast<Index>(cut);
    options.prompt_tokens = 5;
    options.cached_tokens = store_.end();
    const Generation rest = generate(decoder_, store_, workspace_, longer, options);
    EXPECT_TRUE(std::ranges::equal(rest.tokens, std::span(whole.tokens).subspan(cut))) << cut;
    EXPECT_EQ(rest.reason, whole.reason);
  }
  options.prompt_tokens = 6;
  EXPECT_THROW(run(options), std::invalid_argument);
  options.prompt_tokens = -1;
  EXPECT_THROW(run(options), std::invalid_argument);
}

TEST_F(Control, IsCancelledFromAnotherThread) {
  std::stop_source source;
  std::atomic<bool> running = false;
  std::thread other([&] {
    while (!running) std::this_thread::yield();
    source.request_stop();
  });
  const Generation result = run({.max_new_tokens = 3000, .cancel = source.get_token()}, [&](Token) {
    running = true;
    while (!source.stop_requested()) std::this_thread::yield();
    return true;
  });
  other.join();
  EXPECT_EQ(result.reason, Reason::cancelled);
  EXPECT_EQ(result.tokens.size(), 1u);
}

TEST_F(Control, TakesOnlyAllowedTokens) {
  const Index vocabulary = decoder_.config().vocabulary;
  std::vector<std::uint32_t> words(static_cast<std::size_t>((vocabulary + 31) / 32), 0);
  words[0] = 0b1010;  // tokens 1 and 3
  std::vector<std::size_t> lengths;
  const auto allowed = [&](std::span<const Token> text) {
    lengths.push_back(text.size());
    if (text.size() == 4) words[0] = 0b100;
    return std::span<const std::uint32_t>(words);
  };
  const Generation result =
      run({.max_new_tokens = 6, .sampler = {.temperature = 1}, .allowed = allowed});
  for (std::size_t at = 0; at < 4; ++at) {
    EXPECT_TRUE(result.tokens[at] == 1 || result.tokens[at] == 3);
  }
  EXPECT_EQ(result.tokens[4], 2);
  EXPECT_EQ(result.tokens[5], 2);
  EXPECT_EQ(lengths, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  words[0] = 0;
  EXPECT_THROW(
      run({.allowed =
               [&](std::span<const Token>) { return std::span<const std::uint32_t>(words); }}),
      NoCandidate);
}

TEST_F(Control, RepeatsNoTokenUnderAHighPresencePenalty) {
  const Generation result =
      run({.max_new_tokens = 20, .sampler = {.penalties = {.presence = 1e6}}});
  EXPECT_EQ(std::set<Token>(result.tokens.begin(), result.tokens.end()).size(), 20u);
}

TEST_F(Control, PenalisesRecomputedRowsAsCachedOnes) {
  const GenerateOptions options = {
      .max_new_tokens = 10,
      .sampler = {.temperature = .8, .seed = 3, .penalties = {.repetition = 1.5, .frequency = .3}}};
  const Generation cached = run(options);
  store_.rewind(0);
  GenerateOptions recomputed = options;
  recomputed.recompute = true;
  EXPECT_EQ(run(recomputed).tokens, cached.tokens);
}

TEST_F(Control, GivesLogProbabilities) {
  const Generation plain = run({.max_new_tokens = 6});
  EXPECT_TRUE(plain.log_probabilities.empty());
  const Generation told = run(
      {.max_new_tokens = 6, .sampler = {.penalties = {.presence = 1e6}}, .log_probabilities = 3});
  ASSERT_EQ(told.log_probabilities.size(), 6u);
  bool other = false;
  for (std::size_t at = 0; at < 6; ++at) {
    const LogProbabilities& found = told.log_probabilities[at];
    EXPECT_EQ(found.taken.token, told.tokens[at]);
    ASSERT_EQ(found.top.size(), 3u);
    EXPECT_GE(found.top[0].value, found.taken.value);
    EXPECT_LE(found.top[0].value, 0.0);
    other = other || found.top[0].token != found.taken.token;
  }
  EXPECT_EQ(told.log_probabilities[0].top[0].token, plain.tokens[0]);
  EXPECT_TRUE(other || plain.tokens == told.tokens);
  EXPECT_THROW(run({.log_probabilities = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace decant::decoding
