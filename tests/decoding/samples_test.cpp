// tests/decoding/samples_test.cpp - several answers to one prompt, on shared pages: each is what
// generate() gives alone.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <vector>

namespace decant::decoding {
namespace {

using SamplePool = kv::PagePool<codec::F32>;

class SamplesTest : public testing::Test {
 protected:
  SamplesTest()
      : decoder_(reference::toy_decoder()),
        prompt_(trial::random_tokens(decoder_.config(), 37, 3)),
        workspace_(decoder_.config(), {.rows = 16, .logit_rows = 8, .sequences = 8}) {
    options_.max_new_tokens = 20;
    options_.sampler = {.temperature = 1.1,
                        .seed = 5,
                        .penalties = {.repetition = 1.4, .bias = {{3, 1.5f}, {9, -2.0f}}}};
    options_.stop.min_new_tokens = 4;
    options_.sequence = 40;
    options_.log_probabilities = 2;
    options_.stop.stop_tokens = {7, 21};
  }

  // What generate() gives for that answer.
  Generation alone(Index sample) {
    kv::Contiguous<codec::F32> store(decoder_.config().geometry(), 80);
    GenerateOptions own = options_;
    own.sequence += static_cast<std::uint64_t>(sample);
    own.cached_tokens = 0;
    return generate(decoder_, store, workspace_, prompt_, own);
  }

  std::vector<Generation> sample(kv::Paged<codec::F32>& store, Index samples) {
    return generate_samples(decoder_, store, workspace_, prompt_, options_, samples,
                            [](Index, Token) { return true; });
  }

  model::Decoder decoder_;
  std::vector<Token> prompt_;
  model::Workspace workspace_;
  GenerateOptions options_;
};

TEST_F(SamplesTest, AreThoseOfRunsAlone) {
  options_.sampler.penalties.repetition = 1.3;
  SamplePool pool(decoder_.config().geometry(), 40, 16);
  kv::Paged<codec::F32> store(pool);
  std::vector<std::vector<Token>> streamed(8);
  const auto generations = generate_samples(
      decoder_, store, workspace_, prompt_, options_, 8, [&](Index sample, Token token) {
        streamed[static_cast<std::size_t>(sample)].push_back(token);
        return true;
      });
  ASSERT_EQ(generations.size(), 8u);
  bool differ = false;
  for (Index sample = 0; sample < 8; ++sample) {
    const Generation& one = generations[static_cast<std::size_t>(sample)];
    const Generation expected = alone(sample);
    EXPECT_EQ(one.tokens, expected.tokens);
    EXPECT_EQ(streamed[static_cast<std::size_t>(sample)], expected.tokens);
    EXPECT_EQ(one.reason, expected.reason);
    EXPECT_EQ(one.ended_by, expected.ended_by);
    ASSERT_EQ(one.log_probabilities.size(), expected.log_probabilities.size());
    for (std::size_t at = 0; at < one.log_probabilities.size(); ++at) {
      EXPECT_EQ(one.log_probabilities[at].taken, expected.log_probabilities[at].taken);
      EXPECT_EQ(one.log_probabilities[at].top, expected.log_probabilities[at].top);
    }
    differ = differ || one.tokens != generations.front().tokens;
  }
  EXPECT_TRUE(differ);
  EXPECT_EQ(store.end(), 37);
  EXPECT_EQ(pool.used_pages(), 3);  // the forks are gone
}

TEST_F(SamplesTest, ComputeTheirPromptOnce) {
  SamplePool pool(decoder_.config().geometry(), 40, 16);
  kv::Paged<codec::F32> store(pool);
  sample(store, 2);
  options_.cached_tokens = store.end();
  const auto again = sample(store, 3);  // but for its last token
  for (const Generation& one : again) {
    EXPECT_EQ(one.statistics.cached_tokens, 36);
    EXPECT_EQ(one.statistics.prompt_tokens, 37);
  }
  EXPECT_EQ(again[2].tokens, alone(2).tokens);
}

// The prompt takes three pages. The second of two answers finds no free page for its copy of the
// third.
TEST_F(SamplesTest, EndWhenThePoolIsFull) {
  options_.stop.stop_tokens.clear();
  SamplePool pool(decoder_.config().geometry(), 4, 16);
  kv::Paged<codec::F32> store(pool);
  const auto generations = sample(store, 2);
  EXPECT_EQ(generations[0].reason, Reason::cache_full);
  EXPECT_EQ(generations[1].reason, Reason::cache_full);
  EXPECT_EQ(generations[0].tokens.size(), 12u);  // positions 37 to 47, and one that is not fed
  EXPECT_EQ(generations[1].tokens.size(), 1u);
  auto expected = alone(0).tokens;
  expected.resize(12);
  EXPECT_EQ(generations[0].tokens, expected);
}

TEST_F(SamplesTest, EndOneByOne) {
  options_.stop.stop_tokens.clear();
  SamplePool pool(decoder_.config().geometry(), 40, 16);
  kv::Paged<codec::F32> store(pool);
  std::vector<Index> counts(3);
  const auto generations =
      generate_samples(decoder_, store, workspace_, prompt_, options_, 3, [&](Index sample, Token) {
        return ++counts[static_cast<std::size_t>(sample)] < 3 * (sample + 1);
      });
  for (Index sample = 0; sample < 3; ++sample) {
    const Generation& one = generations[static_cast<std::size_t>(sample)];
    EXPECT_EQ(one.reason, Reason::sink);
    EXPECT_EQ(std::ssize(one.tokens), 3 * (sample + 1));
    EXPECT_EQ(one.statistics.cache_bytes, 3 * pool.page_bytes());
  }
}

// Two answers copy the last page of the prompt, after which none is free; the second then grows
// into the page that the first gives back.
TEST_F(SamplesTest, GiveTheirPagesToTheOthersWhenTheyEnd) {
  options_.stop.stop_tokens.clear();
  SamplePool pool(decoder_.config().geometry(), 5, 16);
  kv::Paged<codec::F32> store(pool);
  Index first = 0;
  const auto generations =
      generate_samples(decoder_, store, workspace_, prompt_, options_, 2,
                       [&](Index sample, Token) { return sample == 1 || ++first < 3; });
  EXPECT_EQ(generations[0].reason, Reason::sink);
  EXPECT_EQ(generations[1].reason, Reason::length);
  EXPECT_EQ(generations[1].tokens, alone(1).tokens);
}

TEST_F(SamplesTest, EndWhenTheyAreCancelled) {
  options_.stop.stop_tokens.clear();
  SamplePool pool(decoder_.config().geometry(), 40, 16);
  kv::Paged<codec::F32> store(pool);
  std::stop_source source;
  options_.cancel = source.get_token();
  const auto generations =
      generate_samples(decoder_, store, workspace_, prompt_, options_, 2, [&](Index, Token) {
        source.request_stop();
        return true;
      });
  for (const Generation& one : generations) {
    EXPECT_EQ(one.reason, Reason::cancelled);
    EXPECT_EQ(one.tokens.size(), 1u);
  }
  kv::Paged<codec::F32> never(pool);
  for (const Generation& one : sample(never, 2)) {
    EXPECT_EQ(one.reason, Reason::cancelled);
    EXPECT_TRUE(one.tokens.empty());
  }
  EXPECT_EQ(never.end(), 0);
  options_.cancel = {};
  options_.max_seconds = 0;
  for (const Generation& one : sample(never, 2)) EXPECT_EQ(one.reason, Reason::time);
}

TEST(SamplesOfLearnedPositions, EndWhenPositionsRunOut) {
  const std::vector<Token> script = {1, 2, 3, 4, 5, 6}, prompt = {1, 2};
  const model::Decoder decoder = reference::reciting_decoder(script, 8);
  model::Workspace workspace(decoder.config(), {.rows = 4, .logit_rows = 2, .sequences = 2});
  SamplePool pool(decoder.config().geometry(), 4, 16);
  kv::Paged<codec::F32> store(pool);
  const auto generations =
      generate_samples(decoder, store, workspace, prompt, {.max_new_tokens = 1000}, 2,
                       [](Index, Token) { return true; });
  for (const Generation& one : generations) {
    EXPECT_EQ(one.reason, Reason::positions_full);
    EXPECT_EQ(one.tokens.size(), 5u);
  }
}

TEST_F(SamplesTest, LeaveThePromptInTheStoreWhenASinkThrows) {
  SamplePool pool(decoder_.config().geometry(), 40, 16);
  kv::Paged<codec::F32> store(pool);
  Index seen = 0;
  const auto sink = [&](Index, Token) {
    if (++seen == 8) throw std::runtime_error("enough");
    return true;
  };
  EXPECT_THROW(generate_samples(decoder_, store, workspace_, prompt_, options_, 3, sink),
               std::runtime_error);
  EXPECT_EQ(store.end(), 37);
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_EQ(sample(store, 3)[2].tokens, alone(2).tokens);
}

TEST_F(SamplesTest, RefuseInvalidArguments) {
  SamplePool pool(decoder_.config().geometry(), 4, 16);
  kv::Paged<codec::F32> store(pool);
  EXPECT_THROW(sample(store, 0), std::invalid_argument);
  EXPECT_THROW(sample(store, 9), std::invalid_argument);
  options_.recompute = true;
  EXPECT_THROW(sample(store, 1), std::invalid_argument);
  options_.recompute = false;
  prompt_.resize(65, 1);
  EXPECT_THROW(sample(store, 1), CacheFull);
  prompt_.clear();
  EXPECT_THROW(sample(store, 1), std::invalid_argument);
  EXPECT_EQ(store.end(), 0);
}

}  // namespace
}  // namespace decant::decoding
