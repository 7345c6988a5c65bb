// tests/decoding/generate_limits_test.cpp - runs that are refused before anything has changed, or
// end for want of room.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Store = kv::Contiguous<codec::F32>;
using Tokens = std::vector<Token>;

Tokens prompt_of(Index size) {
  Tokens prompt;
  for (Index at = 0; at < size; ++at) prompt.push_back(static_cast<Token>(at * 7 % 64));
  return prompt;
}

template <class Error, class Call>
std::string what_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

bool names(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct LimitsBench {
  explicit LimitsBench(Index capacity, Index rows = 64)
      : store(decoder.config().geometry(), capacity), workspace(decoder.config(), {.rows = rows}) {}

  Generation run(const Tokens& prompt, const GenerateOptions& options = {}) {
    return generate(decoder, store, workspace, prompt, options);
  }

  model::Decoder decoder = reference::toy_decoder();
  Store store;
  model::Workspace workspace;
};

TEST(Refusals, LeaveARingAsItWas) {
  trial::Family family = trial::windowed();
  family.config.windows.assign(family.config.windows.size(), 65);
  const model::Decoder decoder = trial::decoder_of(family);
  model::Workspace workspace(decoder.config(), {.rows = 50});
  const auto run = [&](kv::Ring<codec::F32>& ring, const Tokens& prompt, Index cached = 0) {
    return generate(decoder, ring, workspace, prompt,
                    {.max_new_tokens = 0, .cached_tokens = cached});
  };
  kv::Ring<codec::F32> narrow(decoder.config().geometry(), 64, 50);
  EXPECT_THROW(run(narrow, {1, 2}), std::invalid_argument);
  EXPECT_EQ(narrow.end(), 0);
  kv::Ring<codec::F32> ring(decoder.config().geometry(), 65, 50);
  run(ring, Tokens(300, 1));
  EXPECT_THROW(run(ring, {1, 2}, 2), CannotRewind);
  EXPECT_EQ(ring.end(), 300);
}

// A fork of 20 tokens in pages of 16 has room for them, but not for a page of its own.
TEST(Refusals, WhenOthersHoldThePagesLeaveTheTokensBefore) {
  const model::Decoder decoder = reference::toy_decoder();
  model::Workspace workspace(decoder.config(), {.rows = 64});
  kv::PagePool<codec::F32> pool(decoder.config().geometry(), 2, 16);
  kv::Paged<codec::F32> origin(pool);
  generate(decoder, origin, workspace, prompt_of(20), {.max_new_tokens = 0});
  kv::Paged<codec::F32> fork = origin.fork();
  EXPECT_THROW(generate(decoder, fork, workspace, prompt_of(20), {.cached_tokens = 20}), CacheFull);
  EXPECT_EQ(fork.end(), 19);
  EXPECT_EQ(origin.end(), 20);
}

TEST(Refusals, LeaveTheStoreAsItWas) {
  LimitsBench bench(64);
  const Tokens answer = bench.run({1, 2, 3, 4, 5}, {.max_new_tokens = 8}).tokens;
  const Position end = bench.store.end();
  const auto refused = [&](const Tokens& prompt, const GenerateOptions& options) {
    EXPECT_THROW(bench.run(prompt, options), std::invalid_argument);
    EXPECT_EQ(bench.store.end(), end);
  };
  refused({}, {});
  refused({1, 64}, {});
  refused({1, -1}, {});
  refused({1}, {.max_new_tokens = -1});
  refused({1}, {.stop = {.min_new_tokens = -1}});
  refused({1}, {.stop = {.stop_tokens = {64}}});
  refused({1}, {.cached_tokens = -1});
  refused({1}, {.cached_tokens = 2});
  refused(prompt_of(30), {.cached_tokens = end + 1});
  refused({1}, {.sampler = {.temperature = -1}});
  refused({1}, {.sampler = {.temperature = 1, .top_p = 2}});
  EXPECT_THROW(bench.run(prompt_of(65)), CacheFull);
  EXPECT_EQ(bench.store.end(), end);
  EXPECT_EQ(bench.run({1, 2, 3, 4, 5}, {.max_new_tokens = 8}).tokens, answer);
}

TEST(Refusals, NameTheOffendingValue) {
  LimitsBench bench(64);
  EXPECT_TRUE(names(what_of<std::invalid_argument>([&] { bench.run({}); }), "empty"));
  const std::string token = what_of<std::invalid_argument>([&] { bench.run({1, 77}); });
  EXPECT_TRUE(names(token, "77") && names(token, "64")) << token;
  const std::string length =
      what_of<std::invalid_argument>([&] { bench.run({1}, {.max_new_tokens = -3}); });
  EXPECT_TRUE(names(length, "max_new_tokens is -3")) << length;
}

TEST(Refusals, MeetAStoreOfAnotherGeometry) {
  LimitsBench bench(64);
  kv::Geometry other = bench.decoder.config().geometry();
  other.heads += 1;
  Store store(other, 64);
  store.publish(3);
  EXPECT_THROW(generate(bench.decoder, store, bench.workspace, Tokens{1, 2}),
               std::invalid_argument);
  EXPECT_EQ(store.end(), 3);
}

TEST(Refusals, MeetAWorkspaceOfAnotherConfiguration) {
  LimitsBench bench(64);
  bench.run(Tokens{5, 6, 7}, {.max_new_tokens = 1});
  model::Config other = bench.decoder.config();
  other.norm_epsilon *= 2;
  model::Workspace workspace(other, {.rows = 64});
  EXPECT_THROW(generate(bench.decoder, bench.store, workspace, Tokens{1, 2}),
               std::invalid_argument);
  EXPECT_EQ(bench.store.end(), 3);  // not even rewound
}

TEST(Room, APromptLongerThanTheStoreNamesBothLengths) {
  const std::vector<std::pair<Index, Index>> sizes = {{64, 128}, {100, 200}, {64, 65}};
  for (const auto& [capacity, size] : sizes) {
    LimitsBench bench(capacity);
    const std::string why = what_of<CacheFull>([&, size = size] { bench.run(prompt_of(size)); });
    EXPECT_TRUE(names(why, std::to_string(capacity)) && names(why, std::to_string(size))) << why;
    EXPECT_EQ(bench.store.end(), 0);
  }
}

TEST(Room, APromptThatFillsTheStoreGivesOneToken) {
  LimitsBench bench(64);
  const Generation result = bench.run(prompt_of(64), {.max_new_tokens = 5});
  EXPECT_EQ(result.reason, Reason::cache_full);
  EXPECT_EQ(bench.store.end(), 64);
  LimitsBench roomy(100);
  EXPECT_EQ(result.tokens, roomy.run(prompt_of(64), {.max_new_tokens = 1}).tokens);
}

TEST(Room, ForTheOnlyNewTokenIsNotNeeded) {
  LimitsBench bench(64);
  EXPECT_EQ(bench.run(prompt_of(64), {.max_new_tokens = 1}).reason, Reason::length);
}

TEST(Room, TokensComeUntilTheStoreIsFull) {
  LimitsBench roomy(100);
  const Tokens all = roomy.run(prompt_of(10), {.max_new_tokens = 20}).tokens;
  for (bool recompute : {false, true}) {
    LimitsBench bench(16);
    const Generation result =
        bench.run(prompt_of(10),
                  {.max_new_tokens = std::numeric_limits<Index>::max(), .recompute = recompute});
    EXPECT_EQ(result.reason, Reason::cache_full);
    EXPECT_EQ(result.tokens, Tokens(all.begin(), all.begin() + 7));  // six were fed
    EXPECT_EQ(bench.store.end(), 16);
  }
}

TEST(Room, LearnedPositionsEndARun) {
  const model::Decoder decoder = reference::reciting_decoder(Tokens{1, 2, 3, 4, 5, 6, 7, 8}, 12);
  Store store(decoder.config().geometry(), 32);
  model::Workspace workspace(decoder.config(), {});
  const Generation result = generate(decoder, store, workspace, Tokens{1, 2, 3});
  EXPECT_EQ(result.reason, Reason::positions_full);
  EXPECT_EQ(result.tokens, (Tokens{4, 5, 6, 7, 8, 0}));  // the last follows the last position
  EXPECT_EQ(store.end(), 8);
}

TEST(Room, APromptLongerThanLearnedPositionsNamesBothLengths) {
  const model::Decoder decoder = reference::reciting_decoder(Tokens(8, 1), 12);
  Store store(decoder.config().geometry(), 32);
  model::Workspace workspace(decoder.config(), {});
  const std::string why =
      what_of<std::invalid_argument>([&] { generate(decoder, store, workspace, Tokens(9, 1)); });
  EXPECT_TRUE(names(why, "9 tokens") && names(why, "8 positions")) << why;
}

TEST(Room, TheSmallerOfStoreAndPositionsCounts) {
  const model::Decoder decoder = reference::reciting_decoder(Tokens(8, 1), 12);
  Store store(decoder.config().geometry(), 5);
  model::Workspace workspace(decoder.config(), {});
  EXPECT_EQ(generate(decoder, store, workspace, Tokens{1}).reason, Reason::cache_full);
}

TEST(Room, RotaryPositionsAreUnlimited) {
  reference::Model toy = reference::toy();
  toy.config.max_positions = 8;
  const model::Decoder decoder(toy.config, reference::to_weights(toy));
  Store store(decoder.config().geometry(), 32);
  model::Workspace workspace(decoder.config(), {});
  const Generation result =
      generate(decoder, store, workspace, prompt_of(10), {.max_new_tokens = 5});
  EXPECT_EQ(result.reason, Reason::length);
}

TEST(Prompts, OfOneTokenWork) {
  LimitsBench bench(64);
  EXPECT_EQ(bench.run({0}, {.max_new_tokens = 4}).tokens.size(), 4u);
}

TEST(Prompts, WithoutNewTokensAreOnlyFed) {
  for (bool recompute : {false, true}) {
    LimitsBench bench(64, 2);
    const Generation result =
        bench.run({1, 2, 3, 4, 5}, {.max_new_tokens = 0, .recompute = recompute});
    EXPECT_TRUE(result.tokens.empty());
    EXPECT_EQ(result.reason, Reason::length);
    EXPECT_EQ(result.statistics.generated_tokens, 0);
    EXPECT_EQ(result.statistics.time_to_first_token, 0);
    EXPECT_EQ(bench.store.end(), 5);
  }
}

TEST(Logits, ThatAreNanEndTheRunWithAnErrorThatNamesTheToken) {
  reference::Model toy = reference::toy();
  toy.output.matrix.row(11)[0] = std::numeric_limits<double>::quiet_NaN();
  const model::Decoder decoder(toy.config, reference::to_weights(toy));
  Store store(decoder.config().geometry(), 32);
  model::Workspace workspace(decoder.config(), {});
  const std::string why =
      what_of<std::invalid_argument>([&] { generate(decoder, store, workspace, Tokens{1, 2, 3}); });
  EXPECT_TRUE(names(why, "token 11") && names(why, "nan")) << why;
  EXPECT_EQ(store.end(), 3);
}

}  // namespace
}  // namespace decant::decoding
