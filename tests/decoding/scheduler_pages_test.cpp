// tests/decoding/scheduler_pages_test.cpp - which requests run, on which pages, and which
// are preempted.
#include "decoding/scheduler_fixture.hpp"

#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using namespace trial_requests;
using SchedulerPages = SchedulerTest;

// Of 34 tokens the 32 in whole pages are cached, most of them generated ones.
TEST_F(SchedulerPages, CachesTheTextOfAPreemptedRequest) {
  SchedulerHarness harness(decoder_, 8, limits_);
  const RequestId id = harness.submit(request(prompt(10, 1), 30));
  for (int step = 0; step < 25; ++step) harness.step();
  EXPECT_TRUE(harness.scheduler().preempt(id));
  harness.finish();
  EXPECT_EQ(harness.tokens(id), alone(request(prompt(10, 1), 30)));
  EXPECT_EQ(harness.outcome(id).computed_tokens, 10 + 30 - 1 + 2);
  EXPECT_EQ(harness.scheduler().statistics().prompt_tokens, 10);
}

// Four requests whose texts outgrow the pool together.
TEST_F(SchedulerPages, PreemptsTheLastWhenPagesRunOut) {
  for (bool shares : {false, true}) {
    SchedulerHarness harness(decoder_, 6, limits_, {}, shares);
    std::vector<std::pair<RequestId, Request>> requests;
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Request wanted = request(prompt(14, seed), 40);
      requests.emplace_back(harness.submit(wanted), wanted);
    }
    harness.finish();
    for (const auto& [id, wanted] : requests) EXPECT_EQ(harness.tokens(id), alone(wanted));
    EXPECT_EQ(harness.outcome(requests.front().first).preemptions, 0);
    EXPECT_GT(harness.outcome(requests.back().first).preemptions, 0);
    EXPECT_GT(harness.scheduler().statistics().preemptions, 0);
  }
}

TEST_F(SchedulerPages, DropsDraftsBeforeItPreempts) {
  SchedulerHarness harness(decoder_, 3, limits_);
  Request drafting = request(prompt(10, 1), 10);
  drafting.drafter = [](const History&, Index most, Branches& branches) {
    branches.assign(1, Tokens(static_cast<std::size_t>(most), 0));
  };
  const RequestId first = harness.submit(drafting);
  const RequestId last = harness.submit(request(prompt(10, 2), 6));
  harness.step();
  kv::Paged<codec::F32> guest(harness.pool());
  guest.reserve(1);
  for (int step = 0; step < 3; ++step) harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);
  EXPECT_EQ(harness.scheduler().statistics().preemptions, 0);
  guest = kv::Paged<codec::F32>(harness.pool());
  harness.finish();
  EXPECT_EQ(harness.tokens(first), alone(request(prompt(10, 1), 10)));
  EXPECT_EQ(harness.tokens(last), alone(request(prompt(10, 2), 6)));
}

// Requests that run have room for their next page before another starts.
TEST_F(SchedulerPages, StartsNoRequestThatTheNextTokenWouldPreempt) {
  SchedulerHarness harness(decoder_, 4, limits_);
  for (unsigned seed = 1; seed <= 3; ++seed) harness.submit(request(prompt(16, seed), 10));
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);
  harness.finish();
  EXPECT_EQ(harness.scheduler().statistics().preemptions, 0);
}

TEST_F(SchedulerPages, PreemptsRequestsOfLowerPriority) {
  SchedulerHarness harness(decoder_, 4, limits_);
  const RequestId low = harness.submit(request(prompt(40, 1), 12, -1));
  harness.step();
  const RequestId high = harness.submit(request(prompt(30, 2), 2));
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 1);
  harness.step();
  EXPECT_TRUE(harness.ended(high));
  harness.finish();
  EXPECT_EQ(harness.tokens(low), alone(request(prompt(40, 1), 12)));
  EXPECT_EQ(harness.outcome(low).preemptions, 1);
}

TEST_F(SchedulerPages, RunsAsManyRequestsAsThereAreRowsOfLogits) {
  SchedulerHarness harness(decoder_, 8, {.rows = 8, .logit_rows = 2, .sequences = 4});
  for (unsigned seed = 1; seed <= 4; ++seed) harness.submit(request(prompt(1, seed), 3));
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);
  harness.finish();
  EXPECT_EQ(harness.scheduler().statistics().generated_tokens, 12);
}

TEST_F(SchedulerPages, NeverUsesMoreThanMaxPages) {
  SchedulerHarness harness(decoder_, 20, limits_, {.max_pages = 5});
  EXPECT_THROW(harness.submit(request(prompt(81, 1), 1)), CacheFull);
  std::vector<RequestId> ids;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ids.push_back(harness.submit(request(prompt(30, seed), 30)));
  }
  Index most = 0;
  while (!harness.scheduler().idle()) {
    harness.step();
    most = std::max(most, harness.pool().used_pages());
  }
  EXPECT_EQ(most, 5);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(harness.tokens(ids[seed - 1]), alone(request(prompt(30, seed), 30)));
  }
}

// A request with many drafts takes free pages for them, and never one of another request.
TEST_F(SchedulerPages, TakesDraftsOnFreePagesOnly) {
  Request drafting = request(prompt(14, 1), 40);
  const Tokens expected = alone(drafting);
  Index asked = 0;
  drafting.drafter = [&](const History&, Index most, Branches& branches) {
    asked += 1;
    branches.assign(1, Tokens(static_cast<std::size_t>(most), 1));
  };
  const Request other = request(prompt(14, 2), 40);
  SchedulerHarness harness(decoder_, 8, {.rows = 32, .logit_rows = 32, .sequences = 4});
  const RequestId first = harness.submit(drafting), second = harness.submit(other);
  harness.finish();
  EXPECT_GT(asked, 0);
  EXPECT_EQ(harness.tokens(first), expected);
  EXPECT_EQ(harness.tokens(second), alone(other));
  EXPECT_GT(harness.outcome(first).generation.statistics.proposed_tokens, 0);
  EXPECT_EQ(harness.scheduler().statistics().preemptions, 0);
}

// A request that would not fit beside those ahead of it preempts none of those behind it.
TEST_F(SchedulerPages, PreemptsNoRequestInVain) {
  SchedulerHarness harness(decoder_, 8, {.rows = 128, .logit_rows = 4, .sequences = 4}, {}, false);
  const RequestId first = harness.submit(request(prompt(60, 1), 20, 9));
  const RequestId last = harness.submit(request(prompt(4, 2), 8, 0));
  harness.step();
  const RequestId large = harness.submit(request(prompt(60, 3), 20, 5));
  for (int step = 0; step < 4; ++step) harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);
  harness.finish();
  EXPECT_EQ(harness.outcome(last).preemptions, 0);
  EXPECT_EQ(harness.tokens(first), alone(request(prompt(60, 1), 20)));
  EXPECT_EQ(harness.tokens(large), alone(request(prompt(60, 3), 20)));
}

// A store outside of the scheduler uses a page.
TEST_F(SchedulerPages, EndsWithAFullCacheWhenOthersHoldThePages) {
  SchedulerHarness harness(decoder_, 3, limits_);
  kv::Paged<codec::F32> guest(harness.pool());
  guest.reserve(1);
  guest.publish(1);
  const RequestId id = harness.submit(request(prompt(30, 1), 10));
  while (!harness.scheduler().idle()) harness.step();
  EXPECT_EQ(harness.reason(id), Reason::cache_full);
  Tokens expected = alone(request(prompt(30, 1), 10));
  expected.resize(3);  // the third has no room to be fed
  EXPECT_EQ(harness.tokens(id), expected);
  EXPECT_EQ(harness.pool().used_pages(), 1);
}

// A tree that the scheduler does not know caches pages, so that they stay in use.
TEST_F(SchedulerPages, EndsWithAFullCacheWhenAnotherTreeCachesThePages) {
  for (bool shares : {false, true}) {
    SchedulerHarness harness(decoder_, 4, limits_, {}, shares);
    Tree foreign(harness.pool());
    {
      kv::Paged<codec::F32> guest(harness.pool());
      guest.reserve(32);
      guest.publish(32);
      foreign.insert({}, prompt(32, 5), guest);
    }
    const RequestId id = harness.submit(request(prompt(30, 1), 10));
    for (int step = 0; step < 50 && !harness.scheduler().idle(); ++step) harness.step();
    ASSERT_TRUE(harness.ended(id));
    EXPECT_EQ(harness.reason(id), Reason::cache_full);
    Tokens expected = alone(request(prompt(30, 1), 10));
    expected.resize(3);
    EXPECT_EQ(harness.tokens(id), expected);
    EXPECT_EQ(harness.pool().used_pages(), 0);
  }
}

TEST_F(SchedulerPages, RunsHigherPrioritiesFirst) {
  SchedulerHarness harness(decoder_, 8, limits_, {.max_running = 1});
  const RequestId low = harness.submit(request(prompt(4, 1), 6, -1));
  harness.step();
  const RequestId first = harness.submit(request(prompt(4, 2), 3));
  const RequestId high = harness.submit(request(prompt(4, 3), 3, 5));
  const RequestId second = harness.submit(request(prompt(4, 4), 3));
  std::vector<RequestId> order;
  while (!harness.scheduler().idle()) {
    harness.step();
    for (RequestId id : {low, first, high, second}) {
      if (harness.ended(id) && std::ranges::count(order, id) == 0) order.push_back(id);
    }
  }
  EXPECT_EQ(order, (std::vector<RequestId>{high, first, second, low}));
  EXPECT_EQ(harness.outcome(low).preemptions, 1);
  EXPECT_EQ(harness.tokens(low), alone(request(prompt(4, 1), 6)));
}

// The first request holds every page; the other starts at once on the pages that it gives back.
TEST_F(SchedulerPages, GiveWayToAHigherPriority) {
  SchedulerHarness harness(decoder_, 4, limits_, {}, false);
  const RequestId low = harness.submit(request(prompt(50, 1), 10, -1));
  for (int step = 0; step < 2; ++step) harness.step();  // the prompt takes two
  ASSERT_EQ(harness.pool().used_pages(), 4);
  const RequestId high = harness.submit(request(prompt(20, 2), 2, 5));
  for (int step = 0; step < 2; ++step) harness.step();
  EXPECT_TRUE(harness.ended(high));
  EXPECT_FALSE(harness.ended(low));
  harness.finish();
  EXPECT_EQ(harness.outcome(low).preemptions, 1);
  EXPECT_EQ(harness.tokens(low), alone(request(prompt(50, 1), 10)));
}

// One request runs at a time, and with every step a more important one is submitted.
TEST_F(SchedulerPages, LetsNoRequestWaitForEver) {
  for (Index ageing : {Index{20}, Index{1000000}}) {
    SchedulerHarness harness(decoder_, 8, limits_, {.max_running = 1, .ageing_steps = ageing});
    const RequestId patient = harness.submit(request(prompt(4, 1), 4, -2));
    for (int step = 0; step < 200; ++step) {
      harness.submit(request(prompt(4, 2), 1));
      harness.step();
    }
    EXPECT_EQ(harness.ended(patient), ageing == 20);
    harness.finish();
  }
}

TEST_F(SchedulerPages, ReusesThePrefixesOfEarlierPrompts) {
  SchedulerHarness harness(decoder_, 20, limits_);
  const Tokens shared = prompt(50, 1);
  Request wanted = request(shared, 6);
  const RequestId first = harness.submit(wanted);
  harness.finish();
  wanted.prompt.push_back(9);
  const RequestId second = harness.submit(wanted);
  Request stranger = wanted;
  stranger.cache_namespace.tenant = 1;
  const RequestId third = harness.submit(stranger);
  harness.finish();
  EXPECT_EQ(harness.outcome(first).generation.statistics.cached_tokens, 0);
  EXPECT_EQ(harness.outcome(second).generation.statistics.cached_tokens, 48);
  EXPECT_EQ(harness.outcome(third).generation.statistics.cached_tokens, 0);
  EXPECT_EQ(harness.tokens(second), alone(wanted));
  EXPECT_EQ(harness.tokens(third), alone(wanted));
  const kv::PrefixStatistics& tree = harness.tree().statistics();
  EXPECT_EQ(tree.prompts, 3);
  EXPECT_EQ(tree.hits, 1);
  EXPECT_EQ(tree.reused_tokens, 48);
}

TEST_F(SchedulerPages, SharesThePagesOfAPromptAsSoonAsItIsComputed) {
  SchedulerHarness harness(decoder_, 20, limits_);
  const Request wanted = request(prompt(40, 1), 20);
  harness.submit(wanted);
  for (int step = 0; step < 4; ++step) harness.step();
  const RequestId second = harness.submit(wanted);
  harness.finish();
  EXPECT_EQ(harness.outcome(second).generation.statistics.cached_tokens, 32);
  EXPECT_EQ(harness.tokens(second), alone(wanted));
}

// Eight copies of the prompt would take 32 pages.
TEST_F(SchedulerPages, RunsManyRequestsOnThePagesOfOnePrompt) {
  SchedulerHarness harness(decoder_, 20, {.rows = 64, .logit_rows = 8, .sequences = 8});
  const Tokens shared = prompt(64, 1);
  harness.submit(request(shared, 1));
  harness.finish();
  std::vector<RequestId> ids;
  Request wanted = request(shared, 10);
  wanted.prompt.push_back(3);
  for (int n = 0; n < 8; ++n) ids.push_back(harness.submit(wanted));
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 8);
  harness.finish();
  for (RequestId id : ids) EXPECT_EQ(harness.tokens(id), alone(wanted));
}

// Four prompts with a common prefix arrive at once: the first is computed, and the others then
// share its pages.
TEST_F(SchedulerPages, ComputesAPrefixOfPromptsThatArriveTogetherOnce) {
  SchedulerHarness harness(decoder_, 40, limits_);
  std::vector<std::pair<RequestId, Request>> requests;
  for (Token own = 1; own <= 4; ++own) {
    Request wanted = request(prompt(70, 1), 8);
    wanted.prompt.push_back(own);
    requests.emplace_back(harness.submit(wanted), wanted);
  }
  Request other = request(prompt(20, 2), 8);
  requests.emplace_back(harness.submit(other), other);
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);  // the first, and the one that has nothing to share
  harness.finish();
  for (const auto& [id, wanted] : requests) EXPECT_EQ(harness.tokens(id), alone(wanted));
  EXPECT_EQ(harness.scheduler().statistics().cached_tokens, 3 * 64);
}

// A cached prompt of whole pages, in a pool that has no page for a copy of the last.
TEST_F(SchedulerPages, RecomputesAPrefixWhenNoPageIsLeftForACopy) {
  SchedulerHarness harness(decoder_, 2, limits_);
  const Request wanted = request(prompt(32, 1), 1);
  harness.submit(wanted);
  harness.finish();
  EXPECT_EQ(harness.pool().cached_pages(), 2);
  const RequestId again = harness.submit(wanted);
  harness.finish();
  EXPECT_EQ(harness.tokens(again), alone(wanted));
}

// A prefix that is cached in one namespace, or computed in it by a running request.
TEST_F(SchedulerPages, SharesPagesOnlyWithinANamespace) {
  SchedulerHarness harness(decoder_, 12, limits_);
  Request wanted = request(prompt(40, 1), 2);
  const RequestId other = harness.submit(wanted);
  wanted.cache_namespace = kv::CacheNamespace{1};
  const RequestId first = harness.submit(wanted);
  harness.step();
  EXPECT_EQ(harness.scheduler().running(), 2);  // neither waits for the other's pages
  harness.finish();
  const RequestId again = harness.submit(wanted);
  wanted.cache_namespace = kv::CacheNamespace{2};
  const RequestId third = harness.submit(wanted);
  harness.finish();
  const auto cached = [&](RequestId id) {
    return harness.outcome(id).generation.statistics.cached_tokens;
  };
  EXPECT_EQ(cached(other), 0);
  EXPECT_EQ(cached(first), 0);
  EXPECT_EQ(cached(again), 32);
  EXPECT_EQ(cached(third), 0);
}

// Two requests of 31 tokens have pages for one more token, forks would take pages beyond the limit;
// and a step has sequences for two branches beside them.
TEST_F(SchedulerPages, TreeDraftsTakeNoPageBeyondTheLimit) {
  for (Index max_pages : {4, 5, 6, 20}) {
    SchedulerHarness harness(decoder_, 20, limits_, {.max_pages = max_pages}, false);
    Index most_used = 0;
    std::vector<std::pair<RequestId, Request>> requests;
    for (unsigned seed : {1u, 2u}) {
      Request wanted = request(prompt(20, seed), 12);
      wanted.drafter = [](const History&, Index, Branches& branches) {
        branches = {{0}, {1}, {2}, {3}, {4}};
      };
      wanted.sink = [&](Token) {
        most_used = std::max(most_used, harness.pool().used_pages());
        return true;
      };
      requests.emplace_back(harness.submit(wanted), wanted);
    }
    harness.finish();
    EXPECT_LE(most_used, max_pages);
    for (const auto& [id, wanted] : requests) EXPECT_EQ(harness.tokens(id), alone(wanted));
  }
}

}  // namespace
}  // namespace decant::decoding
