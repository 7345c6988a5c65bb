// tests/decoding/scheduler_pages_test.cpp - which requests run, on which pages, and which are
// preempted.
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

// Of 34 tokens the 32 in whole pages, most of which are no prompt.
TEST_F(SchedulerPages, CachesTheTextOfPreemptedRequests) {
  Bureau bureau(decoder_, 8, limits_);
  const RequestId id = bureau.submit(request(prompt(10, 1), 30));
  for (int step = 0; step < 25; ++step) bureau.step();
  EXPECT_TRUE(bureau.scheduler().preempt(id));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(id), alone(request(prompt(10, 1), 30)));
  EXPECT_EQ(bureau.outcome(id).computed_tokens, 10 + 30 - 1 + 2);
  EXPECT_EQ(bureau.scheduler().statistics().prompt_tokens, 10);
}

// Four requests whose texts outgrow the pool together.
TEST_F(SchedulerPages, PreemptsTheLastIfPagesRunOut) {
  for (bool shares : {false, true}) {
    Bureau bureau(decoder_, 6, limits_, {}, shares);
    std::vector<std::pair<RequestId, Request>> requests;
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Request wanted = request(prompt(14, seed), 40);
      requests.emplace_back(bureau.submit(wanted), wanted);
    }
    bureau.finish();
    for (const auto& [id, wanted] : requests) EXPECT_EQ(bureau.tokens(id), alone(wanted));
    EXPECT_EQ(bureau.outcome(requests.front().first).preemptions, 0);
    EXPECT_GT(bureau.outcome(requests.back().first).preemptions, 0);
    EXPECT_GT(bureau.scheduler().statistics().preemptions, 0);
  }
}

TEST_F(SchedulerPages, GivesUpDraftsBeforePagesOfAnyRequest) {
  Bureau bureau(decoder_, 3, limits_);
  Request guessing = request(prompt(10, 1), 10);
  guessing.drafter = [](const History&, Index most, Branches& branches) {
    branches.assign(1, Tokens(static_cast<std::size_t>(most), 0));
  };
  const RequestId first = bureau.submit(guessing);
  const RequestId last = bureau.submit(request(prompt(10, 2), 6));
  bureau.step();
  kv::Paged<codec::F32> guest(bureau.pool());
  guest.reserve(1);
  for (int step = 0; step < 3; ++step) bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
  guest = kv::Paged<codec::F32>(bureau.pool());
  bureau.finish();
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(10, 1), 10)));
  EXPECT_EQ(bureau.tokens(last), alone(request(prompt(10, 2), 6)));
}

// Running requests have room for their next page before another starts.
TEST_F(SchedulerPages, StartsNoRequestThatTheNextTokenWouldPreempt) {
  Bureau bureau(decoder_, 4, limits_);
  for (unsigned seed = 1; seed <= 3; ++seed) bureau.submit(request(prompt(16, seed), 10));
  bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
}

TEST_F(SchedulerPages, TakesPagesOfLowerPriority) {
  Bureau bureau(decoder_, 4, limits_);
  const RequestId low = bureau.submit(request(prompt(40, 1), 12, -1));
  bureau.step();
  const RequestId high = bureau.submit(request(prompt(30, 2), 2));
  bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 1);
  bureau.step();
  EXPECT_TRUE(bureau.ended(high));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(low), alone(request(prompt(40, 1), 12)));
  EXPECT_EQ(bureau.outcome(low).preemptions, 1);
}

TEST_F(SchedulerPages, RunsAsManyAsThereAreRowsOfLogitsFor) {
  Bureau bureau(decoder_, 8, {.rows = 8, .logit_rows = 2, .sequences = 4});
  for (unsigned seed = 1; seed <= 4; ++seed) bureau.submit(request(prompt(1, seed), 3));
  bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.scheduler().statistics().generated_tokens, 12);
}

TEST_F(SchedulerPages, NeverUsesMorePagesThanItMay) {
  Bureau bureau(decoder_, 20, limits_, {.max_pages = 5});
  EXPECT_THROW(bureau.submit(request(prompt(81, 1), 1)), CacheFull);
  std::vector<RequestId> ids;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ids.push_back(bureau.submit(request(prompt(30, seed), 30)));
  }
  Index most = 0;
  while (!bureau.scheduler().idle()) {
    bureau.step();
    most = std::max(most, bureau.pool().used_pages());
  }
  EXPECT_EQ(most, 5);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(bureau.tokens(ids[seed - 1]), alone(request(prompt(30, seed), 30)));
  }
}

// Drafts take free pages only, never those of another request.
TEST_F(SchedulerPages, TakesDraftsOnFreePagesOnly) {
  Request guessing = request(prompt(14, 1), 40);
  const Tokens expected = alone(guessing);
  Index asked = 0;
  guessing.drafter = [&](const History&, Index most, Branches& branches) {
    asked += 1;
    branches.assign(1, Tokens(static_cast<std::size_t>(most), 1));
  };
  const Request other = request(prompt(14, 2), 40);
  Bureau bureau(decoder_, 8, {.rows = 32, .logit_rows = 32, .sequences = 4});
  const RequestId first = bureau.submit(guessing), second = bureau.submit(other);
  bureau.finish();
  EXPECT_GT(asked, 0);
  EXPECT_EQ(bureau.tokens(first), expected);
  EXPECT_EQ(bureau.tokens(second), alone(other));
  EXPECT_GT(bureau.outcome(first).generation.statistics.proposed_tokens, 0);
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
}

// A request of higher priority that would not fit in any case preempts no other.
TEST_F(SchedulerPages, PreemptsNoneInVain) {
  Bureau bureau(decoder_, 8, {.rows = 128, .logit_rows = 4, .sequences = 4}, {}, false);
  const RequestId first = bureau.submit(request(prompt(60, 1), 20, 9));
  const RequestId last = bureau.submit(request(prompt(4, 2), 8, 0));
  bureau.step();
  const RequestId large = bureau.submit(request(prompt(60, 3), 20, 5));
  for (int step = 0; step < 4; ++step) bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.outcome(last).preemptions, 0);
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(60, 1), 20)));
  EXPECT_EQ(bureau.tokens(large), alone(request(prompt(60, 3), 20)));
}

// Another user of the pool holds a page.
TEST_F(SchedulerPages, EndsWithAFullCacheIfOthersUseThePages) {
  Bureau bureau(decoder_, 3, limits_);
  kv::Paged<codec::F32> guest(bureau.pool());
  guest.reserve(1);
  guest.publish(1);
  const RequestId id = bureau.submit(request(prompt(30, 1), 10));
  while (!bureau.scheduler().idle()) bureau.step();
  EXPECT_EQ(bureau.reason(id), Reason::cache_full);
  Tokens expected = alone(request(prompt(30, 1), 10));
  expected.resize(3);  // the third has no room to be fed
  EXPECT_EQ(bureau.tokens(id), expected);
  EXPECT_EQ(bureau.pool().used_pages(), 1);
}

// Pages are cached by a tree that does not belong to the scheduler.
TEST_F(SchedulerPages, EndsWithAFullCacheIfOthersCacheThePages) {
  for (bool shares : {false, true}) {
    Bureau bureau(decoder_, 4, limits_, {}, shares);
    Tree foreign(bureau.pool());
    {
      kv::Paged<codec::F32> guest(bureau.pool());
      guest.reserve(32);
      guest.publish(32);
      foreign.insert({}, prompt(32, 5), guest);
    }
    const RequestId id = bureau.submit(request(prompt(30, 1), 10));
    for (int step = 0; step < 50 && !bureau.scheduler().idle(); ++step) bureau.step();
    ASSERT_TRUE(bureau.ended(id));
    EXPECT_EQ(bureau.reason(id), Reason::cache_full);
    Tokens expected = alone(request(prompt(30, 1), 10));
    expected.resize(3);
    EXPECT_EQ(bureau.tokens(id), expected);
    EXPECT_EQ(bureau.pool().used_pages(), 0);
  }
}

TEST_F(SchedulerPages, RunsHigherPrioritiesFirst) {
  Bureau bureau(decoder_, 8, {.rows = 32, .logit_rows = 1, .sequences = 1});
  const RequestId low = bureau.submit(request(prompt(4, 1), 6, -1));
  bureau.step();
  const RequestId first = bureau.submit(request(prompt(4, 2), 3));
  const RequestId high = bureau.submit(request(prompt(4, 3), 3, 5));
  const RequestId second = bureau.submit(request(prompt(4, 4), 3));
  std::vector<RequestId> order;
  while (!bureau.scheduler().idle()) {
    bureau.step();
    for (RequestId id : {low, first, high, second}) {
      if (bureau.ended(id) && std::ranges::count(order, id) == 0) order.push_back(id);
    }
  }
  EXPECT_EQ(order, (std::vector<RequestId>{high, first, second, low}));
  EXPECT_EQ(bureau.outcome(low).preemptions, 1);
  EXPECT_EQ(bureau.tokens(low), alone(request(prompt(4, 1), 6)));
}

// One running sequence at most, and a request of higher priority at every step.
TEST_F(SchedulerPages, LetsNoRequestWaitForEver) {
  for (Index ageing : {Index{20}, Index{1000000}}) {
    Bureau bureau(decoder_, 8, {.rows = 32, .logit_rows = 1, .sequences = 1},
                  {.ageing_steps = ageing});
    const RequestId patient = bureau.submit(request(prompt(4, 1), 4, -2));
    for (int step = 0; step < 200; ++step) {
      bureau.submit(request(prompt(4, 2), 1));
      bureau.step();
    }
    EXPECT_EQ(bureau.ended(patient), ageing == 20);
    bureau.finish();
  }
}

TEST_F(SchedulerPages, ReusesPrefixesOfEarlierPrompts) {
  Bureau bureau(decoder_, 20, limits_);
  const Tokens shared = prompt(50, 1);
  Request wanted = request(shared, 6);
  const RequestId first = bureau.submit(wanted);
  bureau.finish();
  wanted.prompt.push_back(9);
  const RequestId second = bureau.submit(wanted);
  Request stranger = wanted;
  stranger.cache_namespace.tenant = 1;
  const RequestId third = bureau.submit(stranger);
  bureau.finish();
  EXPECT_EQ(bureau.outcome(first).generation.statistics.cached_tokens, 0);
  EXPECT_EQ(bureau.outcome(second).generation.statistics.cached_tokens, 48);
  EXPECT_EQ(bureau.outcome(third).generation.statistics.cached_tokens, 0);
  EXPECT_EQ(bureau.tokens(second), alone(wanted));
  EXPECT_EQ(bureau.tokens(third), alone(wanted));
  const kv::PrefixStatistics& tree = bureau.tree().statistics();
  EXPECT_EQ(tree.prompts, 3);
  EXPECT_EQ(tree.hits, 1);
  EXPECT_EQ(tree.reused_tokens, 48);
}

TEST_F(SchedulerPages, SharesAPromptAsSoonAsItIsComputed) {
  Bureau bureau(decoder_, 20, limits_);
  const Request wanted = request(prompt(40, 1), 20);
  bureau.submit(wanted);
  for (int step = 0; step < 4; ++step) bureau.step();
  const RequestId second = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.outcome(second).generation.statistics.cached_tokens, 32);
  EXPECT_EQ(bureau.tokens(second), alone(wanted));
}

// Eight copies of the prompt would take 32 pages.
TEST_F(SchedulerPages, RunsManyOnThePagesOfOnePrompt) {
  Bureau bureau(decoder_, 20, {.rows = 64, .logit_rows = 8, .sequences = 8});
  const Tokens shared = prompt(64, 1);
  bureau.submit(request(shared, 1));
  bureau.finish();
  std::vector<RequestId> ids;
  Request wanted = request(shared, 10);
  wanted.prompt.push_back(3);
  for (int n = 0; n < 8; ++n) ids.push_back(bureau.submit(wanted));
  bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 8);
  bureau.finish();
  for (RequestId id : ids) EXPECT_EQ(bureau.tokens(id), alone(wanted));
}

// Four prompts with a common prefix come at once: the first computes it, the others reuse it.
TEST_F(SchedulerPages, ComputesACommonPrefixOfNewPromptsOnce) {
  Bureau bureau(decoder_, 40, limits_);
  std::vector<std::pair<RequestId, Request>> requests;
  for (Token own = 1; own <= 4; ++own) {
    Request wanted = request(prompt(70, 1), 8);
    wanted.prompt.push_back(own);
    requests.emplace_back(bureau.submit(wanted), wanted);
  }
  Request other = request(prompt(20, 2), 8);
  requests.emplace_back(bureau.submit(other), other);
  bureau.step();
  EXPECT_EQ(bureau.scheduler().running(), 2);  // the first, and the one that has nothing to share
  bureau.finish();
  for (const auto& [id, wanted] : requests) EXPECT_EQ(bureau.tokens(id), alone(wanted));
  EXPECT_EQ(bureau.scheduler().statistics().cached_tokens, 3 * 64);
}

// A cached prompt of full pages, in a pool that has no page for a copy of the last.
TEST_F(SchedulerPages, GivesUpSharingIfNoPageIsLeftForACopy) {
  Bureau bureau(decoder_, 2, limits_);
  const Request wanted = request(prompt(32, 1), 1);
  bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.pool().cached_pages(), 2);
  const RequestId again = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.tokens(again), alone(wanted));
}

}  // namespace
}  // namespace decant::decoding
