// tests/decoding/generate_test.cpp - tokens of the toy model: known answers, with and without
// reuse, and the sink.
#include "decoding/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

using Store = kv::Contiguous<codec::F32>;
using Tokens = std::vector<Token>;

const GenerateOptions kSampled{.max_new_tokens = 40,
                               .sampler = {.temperature = 0.9, .top_k = 30, .seed = 42}};

// A decoder with an empty store and a workspace of its own.
struct Bench {
  explicit Bench(Index capacity = 200, Index rows = 512)
      : store(decoder.config().geometry(), capacity), workspace(decoder.config(), {.rows = rows}) {}

  Generation run(const Tokens& prompt, const GenerateOptions& options) {
    return generate(decoder, store, workspace, prompt, options);
  }
  // The same for a prompt that begins with what the store holds.
  Generation go_on(const Tokens& prompt, GenerateOptions options) {
    options.cached_tokens = std::min<Index>(store.end(), std::ssize(prompt));
    return run(prompt, options);
  }

  model::Decoder decoder = reference::toy_decoder();
  Store store;
  model::Workspace workspace;
};

Tokens fresh(const Tokens& prompt, const GenerateOptions& options) {
  return Bench().run(prompt, options).tokens;
}

Tokens joined(Tokens first, const Tokens& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(Generate, GivesTheKnownGreedyTokensCachedAndRecomputed) {
  for (const reference::ToyAnswer& answer : reference::toy_answers()) {
    const model::Decoder decoder = reference::toy_decoder(answer.windows);
    for (bool recompute : {false, true}) {
      Store store(decoder.config().geometry(), 64);
      model::Workspace workspace(decoder.config(), {});
      const Generation result = generate(decoder, store, workspace, answer.prompt,
                                         {.max_new_tokens = 8, .recompute = recompute});
      EXPECT_EQ(result.tokens, answer.greedy);
      EXPECT_EQ(result.reason, Reason::length);
      EXPECT_FALSE(result.ended_by.has_value());
    }
  }
}

TEST(Generate, SamplesTheSameTokensCachedAndRecomputed) {
  GenerateOptions options = kSampled;
  const Tokens cached = fresh({5, 6, 7, 8, 9}, options);
  options.recompute = true;
  EXPECT_EQ(fresh({5, 6, 7, 8, 9}, options), cached);
  EXPECT_EQ(cached.size(), 40u);
  EXPECT_NE(cached, fresh({5, 6, 7, 8, 9}, {.max_new_tokens = 40}));  // not merely greedy
}

TEST(Generate, SamplesTheSameTokensForEveryChunkOfThePrompt) {
  const Tokens prompt = reference::count_up(10, 47);
  const Tokens whole = fresh(prompt, kSampled);
  for (Index rows : {1, 2, 7, 36, 37}) {
    Bench bench(200, rows);
    const Generation result = bench.run(prompt, kSampled);
    EXPECT_EQ(result.tokens, whole) << rows;
    EXPECT_EQ(bench.store.end(), 37 + 39);
  }
}

TEST(Generate, SamplesTheSameTokensFromABf16Cache) {
  const model::Decoder decoder = reference::toy_decoder();
  const auto tokens = [&](bool recompute) {
    kv::Contiguous<codec::BF16> store(decoder.config().geometry(), 100);
    model::Workspace workspace(decoder.config(), {});
    GenerateOptions options = kSampled;
    options.recompute = recompute;
    return generate(decoder, store, workspace, Tokens{5, 6, 7, 8, 9}, options).tokens;
  };
  EXPECT_EQ(tokens(false), tokens(true));
}

TEST(Generate, DrawsOtherTokensForAnotherSequence) {
  GenerateOptions options = kSampled;
  options.sequence = 1;
  EXPECT_NE(fresh({5, 6, 7}, options), fresh({5, 6, 7}, kSampled));
  EXPECT_EQ(fresh({5, 6, 7}, options), fresh({5, 6, 7}, options));
}

TEST(Generate, DrawsByThePositionInTheWholeSequence) {
  // The draw of a token depends on where it stands, not on how it came there.
  const Tokens prompt = {5, 6, 7};
  const Tokens tokens = fresh(prompt, kSampled);
  const Tokens longer = joined(prompt, {tokens.begin(), tokens.begin() + 10});
  const Tokens rest(tokens.begin() + 10, tokens.end());
  GenerateOptions options = kSampled;
  options.max_new_tokens = 30;
  EXPECT_EQ(fresh(longer, options), rest);
}

TEST(Generate, ReusesTheCachedTokens) {
  const Tokens prompt = {5, 6, 7, 8, 9};
  Bench bench;
  const Tokens answer = bench.run(prompt, kSampled).tokens;
  EXPECT_EQ(bench.store.end(), 5 + 39);  // the last token is not fed
  const Tokens next = joined(joined(prompt, answer), {1, 2, 3});
  const Generation again = bench.go_on(next, kSampled);
  EXPECT_EQ(again.statistics.cached_tokens, 44);
  EXPECT_EQ(again.statistics.prompt_tokens, 48);
  EXPECT_EQ(again.tokens, fresh(next, kSampled));
}

TEST(Generate, ComputesTheLastPromptTokenAgain) {
  const Tokens prompt = {5, 6, 7, 8, 9};
  Bench bench;
  const Tokens first = bench.run(prompt, kSampled).tokens;
  const Generation again = bench.go_on(prompt, kSampled);
  EXPECT_EQ(again.statistics.cached_tokens, 4);
  EXPECT_EQ(again.tokens, first);
}

TEST(Generate, IgnoresTheRowsOfALongerText) {
  const Tokens prompt = {5, 6, 7, 8, 9};
  Bench bench;
  bench.run(prompt, kSampled);
  const Generation shorter = bench.go_on({5, 6}, kSampled);
  EXPECT_EQ(shorter.statistics.cached_tokens, 1);
  EXPECT_EQ(shorter.tokens, fresh({5, 6}, kSampled));
  EXPECT_EQ(bench.store.end(), 2 + 39);
}

TEST(Generate, TakesNothingOfAStoreUnasked) {
  Bench bench;
  bench.run({9, 9, 9, 9}, kSampled);  // another text
  const Generation result = bench.run({5, 6, 7}, kSampled);
  EXPECT_EQ(result.statistics.cached_tokens, 0);
  EXPECT_EQ(result.tokens, fresh({5, 6, 7}, kSampled));
}

TEST(Generate, RecomputingReusesNothing) {
  Bench bench;
  GenerateOptions options = kSampled;
  bench.run({9, 9, 9, 9}, options);  // rows of another text, which must not matter
  options.recompute = true;
  const Generation result = bench.go_on({5, 6, 7}, options);
  EXPECT_EQ(result.statistics.cached_tokens, 0);
  EXPECT_EQ(result.tokens, fresh({5, 6, 7}, kSampled));
}

// The store is filled with NaN after every token; only a run that recomputes everything survives
// that.
TEST(Generate, RecomputingReadsNothingOfEarlierSteps) {
  const Tokens expected = fresh({5, 6, 7}, kSampled);
  Bench bench;
  const std::vector<float> nan(8, std::numeric_limits<float>::quiet_NaN());
  const auto spoil = [&](Token) {
    for (Position at = 0; at < bench.store.end(); ++at) bench.store.put(0, 1, at, nan, nan);
    return true;
  };
  GenerateOptions options = kSampled;
  const auto run = [&] {
    return generate(bench.decoder, bench.store, bench.workspace, Tokens{5, 6, 7}, options, spoil);
  };
  EXPECT_THROW(run(), std::invalid_argument);
  options.recompute = true;
  EXPECT_EQ(run().tokens, expected);
}

TEST(Generate, TellsTheSinkEveryTokenInOrder) {
  Bench bench;
  Tokens seen;
  const auto note = [&](Token token) {
    seen.push_back(token);
    return true;
  };
  const Generation result =
      generate(bench.decoder, bench.store, bench.workspace, Tokens{5, 6, 7}, kSampled, note);
  EXPECT_EQ(seen, result.tokens);
}

TEST(Generate, EndsAfterTheTokenThatTheSinkRefuses) {
  const Tokens all = fresh({5, 6, 7}, kSampled);
  Bench bench;
  int calls = 0;
  const Generation result = generate(bench.decoder, bench.store, bench.workspace, Tokens{5, 6, 7},
                                     kSampled, [&](Token) { return ++calls < 3; });
  EXPECT_EQ(result.reason, Reason::sink);
  EXPECT_EQ(result.tokens, Tokens(all.begin(), all.begin() + 3));
  EXPECT_EQ(bench.store.end(), 5);
}

TEST(Generate, LeavesAUsableStoreWhenTheSinkThrows) {
  const Tokens prompt = {5, 6, 7};
  const Tokens all = fresh(prompt, kSampled);
  Bench bench;
  Tokens seen;
  const auto fail_late = [&](Token token) {
    seen.push_back(token);
    if (seen.size() == 4) throw std::runtime_error("the reader went away");
    return true;
  };
  EXPECT_THROW(generate(bench.decoder, bench.store, bench.workspace, prompt, kSampled, fail_late),
               std::runtime_error);
  EXPECT_EQ(bench.store.end(), 3 + 3);
  GenerateOptions options = kSampled;
  options.max_new_tokens = 36;
  const Generation rest = bench.go_on(joined(prompt, seen), options);
  EXPECT_EQ(rest.statistics.cached_tokens, 6);
  EXPECT_EQ(joined(seen, rest.tokens), all);
}

TEST(Generate, CountsTokensSecondsAndBytes) {
  Bench bench(100);
  bench.run({5, 6, 7, 8}, {.max_new_tokens = 1});
  const Statistics run = bench.go_on({5, 6, 7, 8, 1, 2}, {.max_new_tokens = 5}).statistics;
  EXPECT_EQ(run.prompt_tokens, 6);
  EXPECT_EQ(run.cached_tokens, 4);
  EXPECT_EQ(run.generated_tokens, 5);
  EXPECT_EQ(run.cache_bytes, bench.store.bytes());
  EXPECT_GT(run.prefill_seconds, 0);
  EXPECT_GE(run.time_to_first_token, run.prefill_seconds);
  EXPECT_GT(run.decode_seconds, 0);
}

TEST(Generate, TimesOneTokenWithoutADecodeTime) {
  Bench bench;
  const Statistics run = bench.run({5, 6}, {.max_new_tokens = 1}).statistics;
  EXPECT_EQ(run.decode_seconds, 0);
  EXPECT_EQ(run.time_per_output_token(), 0);
}

}  // namespace
}  // namespace decant::decoding
