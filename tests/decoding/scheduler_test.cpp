// tests/decoding/scheduler_test.cpp - requests in a batch get the tokens that they get alone, or
// are refused.
#include "decoding/scheduler_fixture.hpp"

#include <decant/core/shape.hpp>
#include <decant/decoding/drafter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using namespace trial_requests;

TEST_F(SchedulerTest, GivesEachRequestTheTokensOfARunAlone) {
  SchedulerHarness harness(decoder_, 40, limits_);
  std::vector<std::pair<RequestId, Request>> requests;
  for (unsigned seed = 1; seed <= 9; ++seed) {
    const Request wanted = request(prompt(7 * seed, seed), 3 + seed);
    requests.emplace_back(harness.submit(wanted), wanted);
  }
  harness.finish();
  SchedulerStatistics sums;
  for (const auto& [id, wanted] : requests) {
    EXPECT_EQ(harness.tokens(id), alone(wanted));
    EXPECT_EQ(harness.reason(id), Reason::length);
    const Outcome& outcome = harness.outcome(id);
    sums.queue_seconds += outcome.queue_seconds;
    sums.first_token_seconds += outcome.generation.statistics.time_to_first_token;
    sums.decode_seconds += outcome.generation.statistics.decode_seconds;
    const Index fed = std::ssize(wanted.prompt) + wanted.options.max_new_tokens - 1;
    EXPECT_EQ(harness.outcome(id).generation.statistics.cache_bytes,
              ceil_div(fed, 16) * harness.pool().page_bytes());
  }
  const SchedulerStatistics& statistics = harness.scheduler().statistics();
  EXPECT_EQ(statistics.submitted, 9);
  EXPECT_EQ(statistics.ended, 9);
  EXPECT_EQ(statistics.failed, 0);
  EXPECT_EQ(statistics.prompt_tokens, 7 * 45);
  EXPECT_EQ(statistics.generated_tokens, 9 * 3 + 45);
  EXPECT_EQ(statistics.cached_tokens, 0);
  EXPECT_EQ(statistics.ran, 9);
  EXPECT_EQ(statistics.answered, 9);
  EXPECT_GT(statistics.queue_seconds, 0);
  EXPECT_NEAR(statistics.queue_seconds, sums.queue_seconds, 1e-9);
  EXPECT_NEAR(statistics.first_token_seconds, sums.first_token_seconds, 1e-9);
  EXPECT_NEAR(statistics.decode_seconds, sums.decode_seconds, 1e-9);
  EXPECT_GT(statistics.time_per_output_token(), 0);
  EXPECT_GE(statistics.time_to_first_token(), statistics.mean_queue_seconds());
  EXPECT_GE(statistics.first_token_seconds + statistics.decode_seconds, statistics.step_seconds);
  // Every token once, but the last of each text, which need not be fed.
  EXPECT_EQ(statistics.computed_tokens, 7 * 45 + 9 * 3 + 45 - 9);
}

TEST_F(SchedulerTest, RefusesRequestsThatNeverFitAndGoesOn) {
  SchedulerHarness harness(decoder_, 2, limits_);  // 32 tokens
  try {
    harness.submit(request(prompt(33, 1), 1));
    FAIL() << "33 tokens fit in 32";
  } catch (const CacheFull& error) {
    EXPECT_EQ(std::string(error.what()),
              "decoding::Scheduler: a prompt of 33 tokens and 1 new ones take 3 pages, there are "
              "2");
  }
  EXPECT_THROW(harness.submit(request(prompt(31, 1), 3)), CacheFull);
  EXPECT_TRUE(harness.scheduler().idle());
  const RequestId shorter = harness.submit(request(prompt(31, 1), 2));
  const RequestId whole = harness.submit(request(prompt(32, 2), 1));
  harness.finish();
  EXPECT_EQ(harness.tokens(shorter), alone(request(prompt(31, 1), 2)));
  EXPECT_EQ(harness.tokens(whole), alone(request(prompt(32, 2), 1)));
  EXPECT_EQ(harness.scheduler().statistics().submitted, 2);
}

TEST_F(SchedulerTest, RefusesInvalidRequestsAndChangesNothing) {
  SchedulerHarness harness(decoder_, 8, limits_);
  const auto refused = [&](const auto& spoil) {
    Request wanted = request({1, 2}, 4);
    spoil(wanted);
    EXPECT_THROW(harness.submit(wanted), std::invalid_argument);
  };
  refused([](Request& of) { of.prompt = {}; });
  refused([](Request& of) { of.prompt = {64}; });
  refused([](Request& of) { of.prompt = {-1}; });
  refused([](Request& of) { of.options.max_new_tokens = -1; });
  refused([](Request& of) { of.options.sampler.top_p = 2; });
  refused([](Request& of) { of.options.sampler.penalties.bias = {{64, 1.0f}}; });
  refused([](Request& of) { of.options.stop.stop_tokens = {99}; });
  refused([](Request& of) { of.options.recompute = true; });
  refused([](Request& of) { of.options.verification = Verification::rejection; });
  Request longest = request({1, 2}, std::numeric_limits<Index>::max());
  EXPECT_THROW(harness.submit(longest), CacheFull);
  EXPECT_TRUE(harness.scheduler().idle());
  EXPECT_TRUE(harness.scheduler().step().empty());
  EXPECT_EQ(harness.scheduler().statistics().steps, 0);
}

TEST_F(SchedulerTest, RefusesInvalidOptions) {
  model::Workspace workspace(decoder_.config(), limits_);
  Pool pool(decoder_.config().geometry(), 4, 16), other(decoder_.config().geometry(), 4, 16);
  Tree foreign(other);
  const auto make = [&](const SchedulerOptions& options, Tree* tree = nullptr) {
    Scheduler(decoder_, workspace, pool, options, tree);
  };
  EXPECT_NO_THROW(make({}));
  EXPECT_THROW(make({.prefill_token_budget = 0}), std::invalid_argument);
  EXPECT_THROW(make({.max_pages = 0}), std::invalid_argument);
  EXPECT_THROW(make({.ageing_steps = 0}), std::invalid_argument);
  EXPECT_THROW(make({}, &foreign), std::invalid_argument);
  EXPECT_THROW(make({.max_running = 0}), std::invalid_argument);
}

TEST_F(SchedulerTest, RefusesAWorkspaceForFewerRequestsThanAskedFor) {
  Pool pool(decoder_.config().geometry(), 4, 16);
  const auto make = [&](const model::Limits& limits, std::optional<Index> max_running) {
    model::Workspace workspace(decoder_.config(), limits);
    Scheduler(decoder_, workspace, pool, {.max_running = max_running});
  };
  EXPECT_THROW(make({.rows = 256}, {}), std::invalid_argument);  // one at a time, unasked
  EXPECT_NO_THROW(make({.rows = 256}, 1));
  EXPECT_NO_THROW(make(scheduler_limits(3), 3));
  EXPECT_THROW(make(scheduler_limits(3), 4), std::invalid_argument);
  EXPECT_NO_THROW(make(scheduler_limits(3, 256, 2), 3));
  EXPECT_EQ(scheduler_limits(3, 4, 2).rows, 9);
  EXPECT_THROW(scheduler_limits(0), std::invalid_argument);
  EXPECT_THROW(scheduler_limits(1, 0), std::invalid_argument);
  EXPECT_THROW(scheduler_limits(1, 1, -1), std::invalid_argument);
  EXPECT_THROW(scheduler_limits(std::numeric_limits<Index>::max(), 1, 1), std::invalid_argument);
}

TEST_F(SchedulerTest, RunsNoMoreRequestsThanAskedFor) {
  SchedulerHarness harness(decoder_, 40, limits_, {.max_running = 2});
  for (int seed = 1; seed <= 4; ++seed) harness.submit(request(prompt(4, seed), 5));
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);
  harness.finish();
}

TEST_F(SchedulerTest, ScoresAPromptWithoutNewTokens) {
  SchedulerHarness harness(decoder_, 8, limits_);
  const RequestId none = harness.submit(request(prompt(5, 1), 0));
  harness.finish();
  EXPECT_TRUE(harness.tokens(none).empty());
  EXPECT_EQ(harness.reason(none), Reason::length);
}

// Four requests with options of their own that end in every order.
TEST_F(SchedulerTest, AppliesTheOptionsOfEachWhenOthersLeave) {
  std::array<Index, 4> lengths = {2, 4, 6, 8};
  const std::array<Tokens, 4> banned = {Tokens{}, {5}, {7}, {}};
  const std::array<Token, 4> expected = {5, 7, 5, 5};
  do {
    SchedulerHarness harness(decoder_, 8, limits_);
    std::array<RequestId, 4> ids = {};
    for (std::size_t at = 0; at < 4; ++at) {
      Request wanted = request(prompt(3, 1), lengths[at]);
      auto& bias = wanted.options.sampler.penalties.bias;
      bias = {{5, 99.0f}, {7, 95.0f}, {3, 90.0f}};
      for (Token token : banned[at]) bias.emplace_back(token, -trial::kInfinity);
      ids[at] = harness.submit(wanted);
      harness.step();  // the next joins when this one is under way
    }
    harness.finish();
    for (std::size_t at = 0; at < 4; ++at) {
      EXPECT_EQ(harness.tokens(ids[at]),
                Tokens(static_cast<std::size_t>(lengths[at]), expected[at]));
    }
  } while (std::next_permutation(lengths.begin(), lengths.end()));
}

TEST_F(SchedulerTest, DrawsTheSameTokensInAnyBatchAndAfterPreemption) {
  Request seeded = request(prompt(20, 3), 16);
  seeded.options.sampler = {.temperature = 0.8, .seed = 42};
  const Tokens expected = alone(seeded);
  Request other = request(prompt(11, 4), 20);
  other.options.sampler = {.temperature = 1.5, .seed = 7};
  for (Index before = 0; before < 4; ++before) {
    SchedulerHarness harness(decoder_, 40, {.rows = 32, .logit_rows = 6, .sequences = 6});
    for (Index n = 0; n < before; ++n) harness.submit(other);
    const RequestId first = harness.submit(seeded);
    const RequestId reference = harness.submit(seeded);
    harness.submit(other);
    for (int step = 0; step < 6; ++step) harness.step();
    EXPECT_TRUE(harness.scheduler().preempt(first));
    EXPECT_FALSE(harness.scheduler().preempt(first));
    harness.finish();
    EXPECT_EQ(harness.tokens(first), expected);
    EXPECT_EQ(harness.tokens(reference), expected);
    EXPECT_EQ(harness.outcome(first).preemptions, 1);
    EXPECT_EQ(harness.outcome(reference).preemptions, 0);
    // The whole pages of the preempted request are cached.
    EXPECT_LT(harness.outcome(first).computed_tokens, 20 + 16 - 1 + 16);
  }
}

TEST_F(SchedulerTest, PrefillsInChunks) {
  SchedulerHarness harness(decoder_, 20, limits_, {.prefill_token_budget = 5});
  const SchedulerStatistics& statistics = harness.scheduler().statistics();
  const RequestId first = harness.submit(request(prompt(40, 1), 12));
  harness.step();
  EXPECT_EQ(statistics.computed_tokens, 32);  // alone it has all rows
  harness.step();
  EXPECT_EQ(statistics.computed_tokens, 40);
  const RequestId second = harness.submit(request(prompt(23, 2), 2));
  for (int step = 1; step <= 4; ++step) {
    harness.step();
    EXPECT_EQ(statistics.computed_tokens, 40 + step * 6);
  }
  harness.step();
  EXPECT_EQ(statistics.computed_tokens, 40 + 4 * 6 + 1 + 3);
  harness.finish();
  EXPECT_EQ(harness.tokens(first), alone(request(prompt(40, 1), 12)));
  EXPECT_EQ(harness.tokens(second), alone(request(prompt(23, 2), 2)));
}

TEST_F(SchedulerTest, TakesDraftsWithTheRowsThatAreLeft) {
  Request wanted = request({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3}, 30);
  wanted.options.sampler.penalties.bias = {{1, 40.0f}};  // so that the text repeats itself
  const Tokens expected = alone(wanted);
  wanted.drafter = drafts_of(NgramDrafter{});
  SchedulerHarness harness(decoder_, 20, limits_);
  const RequestId id = harness.submit(wanted);
  harness.finish();
  EXPECT_EQ(harness.tokens(id), expected);
  const Statistics& statistics = harness.outcome(id).generation.statistics;
  EXPECT_GT(statistics.accepted_tokens, 0);
  EXPECT_LT(harness.scheduler().statistics().steps, 30);
  EXPECT_EQ(harness.outcome(id).computed_tokens,
            11 + 30 - 1 + statistics.proposed_tokens - statistics.accepted_tokens);
}

TEST(SchedulerOfLearnedPositions, EndsRequestsWhenPositionsRunOut) {
  const Tokens script = {1, 2, 3, 4, 5, 6};
  const model::Decoder decoder = reference::reciting_decoder(script, 8);
  SchedulerHarness harness(decoder, 4, {.rows = 8, .logit_rows = 8, .sequences = 2});
  EXPECT_THROW(harness.submit(request(Tokens(7, 1), 1)), std::invalid_argument);
  Request wanted = request({1, 2}, 1000);
  wanted.drafter = [&](const History&, Index most, Branches& branches) {  // which are wrong
    branches = {{script.begin(), script.begin() + std::min<Index>(most, 2)}};
  };
  const RequestId id = harness.submit(wanted);
  harness.finish();
  EXPECT_EQ(harness.reason(id), Reason::positions_full);
  EXPECT_EQ(harness.tokens(id).size(), 5u);
  EXPECT_EQ(harness.tokens(id)[0], 3);
  const RequestId endless = harness.submit(request({1, 2}, std::numeric_limits<Index>::max()));
  harness.finish();
  EXPECT_EQ(harness.tokens(endless), harness.tokens(id));
}

TEST(SchedulerWithoutRequests, MakesNoStep) {
  const model::Decoder decoder = reference::toy_decoder();
  SchedulerHarness harness(decoder, 4, {.rows = 8, .logit_rows = 2, .sequences = 2});
  EXPECT_TRUE(harness.scheduler().idle());
  harness.step();
  EXPECT_EQ(harness.scheduler().statistics().steps, 0);
}

}  // namespace
}  // namespace decant::decoding
