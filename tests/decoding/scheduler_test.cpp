// tests/decoding/scheduler_test.cpp - who runs, on which pages, and what becomes of those who may
// not, fail, or are taken back.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/shape.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Tokens = std::vector<Token>;
using Pool = kv::PagePool<codec::F32>;
using Tree = kv::PrefixTree<codec::F32>;

Request request(Tokens prompt, Index new_tokens, int priority = 0) {
  return {
      .prompt = std::move(prompt), .options = {.max_new_tokens = new_tokens}, .priority = priority};
}

// A scheduler with what it borrows, and what it has told so far.
class Bureau {
 public:
  Bureau(const model::Decoder& decoder, Index pages, const model::Limits& limits,
         const SchedulerOptions& options = {}, bool shares = true)
      : workspace_(decoder.config(), limits),
        pool_(decoder.config().geometry(), pages, 16),
        tree_(pool_),
        scheduler_(decoder, workspace_, pool_, options, shares ? &tree_ : nullptr) {}

  RequestId submit(Request request) { return scheduler_.submit(std::move(request)); }
  Scheduler<codec::F32>& scheduler() { return scheduler_; }
  Pool& pool() { return pool_; }
  Tree& tree() { return tree_; }

  void tick() {
    for (Event& event : scheduler_.tick()) {
      Tokens& tokens = tokens_[event.request];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.outcome) outcomes_.emplace(event.request, std::move(*event.outcome));
    }
    const Index held = pool_.free_pages() + pool_.used_pages() + pool_.cached_pages();
    EXPECT_EQ(held, pool_.total_pages());
  }
  void finish() {
    while (!scheduler_.idle()) tick();
    EXPECT_EQ(pool_.used_pages(), 0);
  }

  bool ended(RequestId id) const { return outcomes_.contains(id); }
  // What was told piece by piece is what was told at the end.
  const Outcome& outcome(RequestId id) {
    EXPECT_EQ(outcomes_.at(id).generation.tokens, tokens_[id]);
    return outcomes_.at(id);
  }
  const Tokens& tokens(RequestId id) { return outcome(id).generation.tokens; }
  Reason reason(RequestId id) { return outcome(id).generation.reason; }

 private:
  model::Workspace workspace_;
  Pool pool_;
  Tree tree_;
  Scheduler<codec::F32> scheduler_;
  std::map<RequestId, Tokens> tokens_;
  std::map<RequestId, Outcome> outcomes_;
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() : decoder_(reference::toy_decoder()) {}

  Tokens prompt(Index length, unsigned seed) const {
    return trial::random_tokens(decoder_.config(), length, seed);
  }
  // What the request gives by itself.
  Tokens alone(const Request& request) const {
    kv::Contiguous<codec::F32> store(decoder_.config().geometry(), 200);
    model::Workspace workspace(decoder_.config(), {.rows = 200});
    return generate(decoder_, store, workspace, request.prompt, request.options).tokens;
  }

  model::Decoder decoder_;
  model::Limits limits_ = {.rows = 32, .logit_rows = 16, .sequences = 4};
};

TEST_F(SchedulerTest, GivesEachRequestWhatItGetsAlone) {
  Bureau bureau(decoder_, 40, limits_);
  std::vector<std::pair<RequestId, Request>> requests;
  for (unsigned seed = 1; seed <= 9; ++seed) {
    const Request wanted = request(prompt(7 * seed, seed), 3 + seed);
    requests.emplace_back(bureau.submit(wanted), wanted);
  }
  bureau.finish();
  for (const auto& [id, wanted] : requests) {
    EXPECT_EQ(bureau.tokens(id), alone(wanted));
    EXPECT_EQ(bureau.reason(id), Reason::length);
    const Index fed = std::ssize(wanted.prompt) + wanted.options.max_new_tokens - 1;
    EXPECT_EQ(bureau.outcome(id).generation.statistics.cache_bytes,
              ceil_div(fed, 16) * bureau.pool().page_bytes());
  }
  const SchedulerStatistics& statistics = bureau.scheduler().statistics();
  EXPECT_EQ(statistics.submitted, 9);
  EXPECT_EQ(statistics.ended, 9);
  EXPECT_EQ(statistics.failed, 0);
  EXPECT_EQ(statistics.prompt_tokens, 7 * 45);
  EXPECT_EQ(statistics.generated_tokens, 9 * 3 + 45);
  EXPECT_EQ(statistics.cached_tokens, 0);
  EXPECT_EQ(statistics.ran, 9);
  EXPECT_EQ(statistics.answered, 9);
  EXPECT_GT(statistics.time_per_output_token(), 0);
  EXPECT_GE(statistics.time_to_first_token(), statistics.mean_queue_seconds());
  EXPECT_GE(statistics.first_token_seconds + statistics.decode_seconds, statistics.step_seconds);
  // Every token once, but the last of each text, which nobody needs computed.
  EXPECT_EQ(statistics.computed_tokens, 7 * 45 + 9 * 3 + 45 - 9);
}

TEST_F(SchedulerTest, RefusesWhatNeverFitsAndGoesOn) {
  Bureau bureau(decoder_, 2, limits_);  // 32 tokens
  try {
    bureau.submit(request(prompt(33, 1), 1));
    FAIL() << "33 tokens fit in 32";
  } catch (const CacheFull& error) {
    EXPECT_EQ(std::string(error.what()),
              "decoding::Scheduler: a prompt of 33 tokens and 1 new ones take 3 pages, there are "
              "2");
  }
  EXPECT_THROW(bureau.submit(request(prompt(31, 1), 3)), CacheFull);
  EXPECT_TRUE(bureau.scheduler().idle());
  const RequestId shorter = bureau.submit(request(prompt(31, 1), 2));
  const RequestId whole = bureau.submit(request(prompt(32, 2), 1));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(shorter), alone(request(prompt(31, 1), 2)));
  EXPECT_EQ(bureau.tokens(whole), alone(request(prompt(32, 2), 1)));
  EXPECT_EQ(bureau.scheduler().statistics().submitted, 2);
}

TEST_F(SchedulerTest, RefusesNonsenseAndChangesNothing) {
  Bureau bureau(decoder_, 8, limits_);
  const auto refused = [&](const auto& spoil) {
    Request wanted = request({1, 2}, 4);
    spoil(wanted);
    EXPECT_THROW(bureau.submit(wanted), std::invalid_argument);
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
  EXPECT_THROW(bureau.submit(longest), CacheFull);
  EXPECT_TRUE(bureau.scheduler().idle());
  EXPECT_TRUE(bureau.scheduler().tick().empty());
  EXPECT_EQ(bureau.scheduler().statistics().steps, 0);
}

TEST_F(SchedulerTest, RefusesOptionsThatMeanNothing) {
  model::Workspace workspace(decoder_.config(), limits_);
  Pool pool(decoder_.config().geometry(), 4, 16), other(decoder_.config().geometry(), 4, 16);
  Tree foreign(other);
  const auto make = [&](const SchedulerOptions& options, Tree* tree = nullptr) {
    Scheduler<codec::F32>(decoder_, workspace, pool, options, tree);
  };
  EXPECT_NO_THROW(make({}));
  EXPECT_THROW(make({.prompt_rows_beside_decoding = 0}), std::invalid_argument);
  EXPECT_THROW(make({.max_pages = 0}), std::invalid_argument);
  EXPECT_THROW(make({.ageing_ticks = 0}), std::invalid_argument);
  EXPECT_THROW(make({}, &foreign), std::invalid_argument);
}

TEST_F(SchedulerTest, ScoresAPromptWithoutNewTokens) {
  Bureau bureau(decoder_, 8, limits_);
  const RequestId none = bureau.submit(request(prompt(5, 1), 0));
  bureau.finish();
  EXPECT_TRUE(bureau.tokens(none).empty());
  EXPECT_EQ(bureau.reason(none), Reason::length);
}

// Rules of four requests that leave in every order: each keeps its own.
TEST_F(SchedulerTest, KeepsTheRulesOfEachWhenOthersLeave) {
  std::array<Index, 4> lengths = {2, 4, 6, 8};
  const std::array<Tokens, 4> banned = {Tokens{}, {5}, {7}, {}};
  const std::array<Token, 4> expected = {5, 7, 5, 5};
  do {
    Bureau bureau(decoder_, 8, limits_);
    std::array<RequestId, 4> ids = {};
    for (std::size_t at = 0; at < 4; ++at) {
      Request wanted = request(prompt(3, 1), lengths[at]);
      auto& bias = wanted.options.sampler.penalties.bias;
      bias = {{5, 99.0f}, {7, 95.0f}, {3, 90.0f}};
      for (Token token : banned[at]) bias.emplace_back(token, -trial::kInfinity);
      ids[at] = bureau.submit(wanted);
      bureau.tick();  // the next joins when this one is under way
    }
    bureau.finish();
    for (std::size_t at = 0; at < 4; ++at) {
      EXPECT_EQ(bureau.tokens(ids[at]),
                Tokens(static_cast<std::size_t>(lengths[at]), expected[at]));
    }
  } while (std::next_permutation(lengths.begin(), lengths.end()));
}

TEST_F(SchedulerTest, DrawsTheSameTokensInAnyCompanyAndAfterPreemption) {
  Request seeded = request(prompt(20, 3), 16);
  seeded.options.sampler = {.temperature = 0.8, .seed = 42};
  const Tokens expected = alone(seeded);
  Request other = request(prompt(11, 4), 20);
  other.options.sampler = {.temperature = 1.5, .seed = 7};
  for (Index before = 0; before < 4; ++before) {
    Bureau bureau(decoder_, 40, {.rows = 32, .logit_rows = 6, .sequences = 6});
    for (Index n = 0; n < before; ++n) bureau.submit(other);
    const RequestId first = bureau.submit(seeded);
    const RequestId twin = bureau.submit(seeded);
    bureau.submit(other);
    for (int tick = 0; tick < 6; ++tick) bureau.tick();
    EXPECT_TRUE(bureau.scheduler().preempt(first));
    EXPECT_FALSE(bureau.scheduler().preempt(first));
    bureau.finish();
    EXPECT_EQ(bureau.tokens(first), expected);
    EXPECT_EQ(bureau.tokens(twin), expected);
    EXPECT_EQ(bureau.outcome(first).preemptions, 1);
    EXPECT_EQ(bureau.outcome(twin).preemptions, 0);
    // What it had in whole pages is kept.
    EXPECT_LT(bureau.outcome(first).computed_tokens, 20 + 16 - 1 + 16);
  }
}

// Of 34 tokens the 32 in whole pages, most of which are no prompt.
TEST_F(SchedulerTest, KeepsTheTextOfWhomItPutsOff) {
  Bureau bureau(decoder_, 8, limits_);
  const RequestId id = bureau.submit(request(prompt(10, 1), 30));
  for (int tick = 0; tick < 25; ++tick) bureau.tick();
  EXPECT_TRUE(bureau.scheduler().preempt(id));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(id), alone(request(prompt(10, 1), 30)));
  EXPECT_EQ(bureau.outcome(id).computed_tokens, 10 + 30 - 1 + 2);
  EXPECT_EQ(bureau.scheduler().statistics().prompt_tokens, 10);
}

// Four requests whose texts outgrow the pool together.
TEST_F(SchedulerTest, PutsTheLastOffWherePagesRunOut) {
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

TEST_F(SchedulerTest, GivesUpGuessesBeforeAnybodysPages) {
  Bureau bureau(decoder_, 3, limits_);
  const std::vector<Token> guesses(32, 0);
  Request guessing = request(prompt(10, 1), 10);
  guessing.drafter = [&](const History&, Index most) {
    return std::span(guesses).first(static_cast<std::size_t>(most));
  };
  const RequestId first = bureau.submit(guessing);
  const RequestId last = bureau.submit(request(prompt(10, 2), 6));
  bureau.tick();
  kv::Paged<codec::F32> guest(bureau.pool());
  guest.reserve(1);
  for (int tick = 0; tick < 3; ++tick) bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
  guest = kv::Paged<codec::F32>(bureau.pool());
  bureau.finish();
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(10, 1), 10)));
  EXPECT_EQ(bureau.tokens(last), alone(request(prompt(10, 2), 6)));
}

// Whoever runs has room for its next page before another starts.
TEST_F(SchedulerTest, StartsNobodyWhomTheNextTokenWouldPutOff) {
  Bureau bureau(decoder_, 4, limits_);
  for (unsigned seed = 1; seed <= 3; ++seed) bureau.submit(request(prompt(16, seed), 10));
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
}

TEST_F(SchedulerTest, TakesPagesOfTheLessImportant) {
  Bureau bureau(decoder_, 4, limits_);
  const RequestId low = bureau.submit(request(prompt(40, 1), 12, -1));
  bureau.tick();
  const RequestId high = bureau.submit(request(prompt(30, 2), 2));
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 1);
  bureau.tick();
  EXPECT_TRUE(bureau.ended(high));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(low), alone(request(prompt(40, 1), 12)));
  EXPECT_EQ(bureau.outcome(low).preemptions, 1);
}

TEST_F(SchedulerTest, RunsAsManyAsThereAreRowsOfLogitsFor) {
  Bureau bureau(decoder_, 8, {.rows = 8, .logit_rows = 2, .sequences = 4});
  for (unsigned seed = 1; seed <= 4; ++seed) bureau.submit(request(prompt(1, seed), 3));
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.scheduler().statistics().generated_tokens, 12);
}

TEST_F(SchedulerTest, NeverUsesMorePagesThanItMay) {
  Bureau bureau(decoder_, 20, limits_, {.max_pages = 5});
  EXPECT_THROW(bureau.submit(request(prompt(81, 1), 1)), CacheFull);
  std::vector<RequestId> ids;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ids.push_back(bureau.submit(request(prompt(30, seed), 30)));
  }
  Index most = 0;
  while (!bureau.scheduler().idle()) {
    bureau.tick();
    most = std::max(most, bureau.pool().used_pages());
  }
  EXPECT_EQ(most, 5);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(bureau.tokens(ids[seed - 1]), alone(request(prompt(30, seed), 30)));
  }
}

// Whoever guesses much beside somebody else takes pages that are free, and never one of theirs.
TEST_F(SchedulerTest, TakesGuessesOnFreePagesAlone) {
  Request guessing = request(prompt(14, 1), 40);
  const Tokens expected = alone(guessing);
  Index asked = 0;
  guessing.drafter = [&](const History&, Index most, Tokens& guesses) {
    asked += 1;
    guesses.assign(static_cast<std::size_t>(most), 1);
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

// A more important request that would not fit beside those before it takes nothing from those
// behind it.
TEST_F(SchedulerTest, PutsNobodyOffInVain) {
  Bureau bureau(decoder_, 8, {.rows = 128, .logit_rows = 4, .sequences = 4}, {}, false);
  const RequestId first = bureau.submit(request(prompt(60, 1), 20, 9));
  const RequestId last = bureau.submit(request(prompt(4, 2), 8, 0));
  bureau.tick();
  const RequestId large = bureau.submit(request(prompt(60, 3), 20, 5));
  for (int tick = 0; tick < 4; ++tick) bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 2);
  bureau.finish();
  EXPECT_EQ(bureau.outcome(last).preemptions, 0);
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(60, 1), 20)));
  EXPECT_EQ(bureau.tokens(large), alone(request(prompt(60, 3), 20)));
}

// Each that runs has a page to grow into, or the newcomer would be put off at once.
TEST_F(SchedulerTest, LetsNobodyInWhoWouldBePutOffAtOnce) {
  Bureau bureau(decoder_, 3, limits_, {}, false);
  const RequestId first = bureau.submit(request(prompt(32, 1), 14));
  const RequestId second = bureau.submit(request(prompt(14, 2), 2));
  bureau.finish();
  EXPECT_EQ(bureau.scheduler().statistics().preemptions, 0);
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(32, 1), 14)));
  EXPECT_EQ(bureau.tokens(second), alone(request(prompt(14, 2), 2)));
}

// What ended is told, though the tick that ended it failed.
TEST_F(SchedulerTest, TellsLaterWhatATickThatFailedHasEnded) {
  struct Failing final : Executor {
    bool fails = false;
    Index threads() const noexcept override { return 1; }
    void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
      if (fails) throw std::runtime_error("no step today");
      serial_executor().parallel_for(items, piece);
    }
  } executor;
  model::Workspace workspace(decoder_.config(), limits_, executor);
  Pool pool(decoder_.config().geometry(), 8, 16);
  Scheduler<codec::F32> scheduler(decoder_, workspace, pool);
  const RequestId stays = scheduler.submit(request(prompt(4, 1), 3));
  const RequestId goes = scheduler.submit(request(prompt(4, 2), 3));
  scheduler.tick();
  scheduler.cancel(goes);
  executor.fails = true;
  EXPECT_THROW(scheduler.tick(), std::runtime_error);
  EXPECT_THROW(scheduler.tick(), std::runtime_error);
  executor.fails = false;
  const auto events = scheduler.tick();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].request, goes);
  EXPECT_EQ(events[0].outcome->generation.reason, Reason::cancelled);
  EXPECT_EQ(events[1].request, stays);
  EXPECT_EQ(events[1].tokens.size(), 1u);
  const auto last = scheduler.end_all(std::make_exception_ptr(std::runtime_error("over")));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].outcome->generation.reason, Reason::failed);
  EXPECT_EQ(last[0].outcome->generation.tokens.size(), 2u);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool.used_pages(), 0);
}

// Pages are kept by a tree that the scheduler does not know.
TEST_F(SchedulerTest, EndsWithAFullCacheWhereOthersKeepThePages) {
  Bureau bureau(decoder_, 3, limits_, {}, false);
  {
    kv::Paged<codec::F32> guest(bureau.pool());
    guest.reserve(16);
    guest.publish(16);
    bureau.tree().insert({}, prompt(16, 5), guest);
  }
  const RequestId id = bureau.submit(request(prompt(30, 1), 10));
  bureau.finish();
  EXPECT_EQ(bureau.reason(id), Reason::cache_full);
  EXPECT_EQ(bureau.tokens(id).size(), 3u);
}

// A page is in use by others than requests.
TEST_F(SchedulerTest, EndsWithAFullCacheWhereOthersHoldThePages) {
  Bureau bureau(decoder_, 3, limits_);
  kv::Paged<codec::F32> guest(bureau.pool());
  guest.reserve(1);
  guest.publish(1);
  const RequestId id = bureau.submit(request(prompt(30, 1), 10));
  while (!bureau.scheduler().idle()) bureau.tick();
  EXPECT_EQ(bureau.reason(id), Reason::cache_full);
  Tokens expected = alone(request(prompt(30, 1), 10));
  expected.resize(3);  // the third has no room to be fed
  EXPECT_EQ(bureau.tokens(id), expected);
  EXPECT_EQ(bureau.pool().used_pages(), 1);
}

// Pages are kept by a tree that the scheduler knows nothing of, and will not be had.
TEST_F(SchedulerTest, EndsWithAFullCacheWhereOthersKeepThePages) {
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
    for (int tick = 0; tick < 50 && !bureau.scheduler().idle(); ++tick) bureau.tick();
    ASSERT_TRUE(bureau.ended(id));
    EXPECT_EQ(bureau.reason(id), Reason::cache_full);
    Tokens expected = alone(request(prompt(30, 1), 10));
    expected.resize(3);
    EXPECT_EQ(bureau.tokens(id), expected);
    EXPECT_EQ(bureau.pool().used_pages(), 0);
  }
}

TEST_F(SchedulerTest, RunsTheMoreImportantFirst) {
  Bureau bureau(decoder_, 8, {.rows = 32, .logit_rows = 1, .sequences = 1});
  const RequestId low = bureau.submit(request(prompt(4, 1), 6, -1));
  bureau.tick();
  const RequestId first = bureau.submit(request(prompt(4, 2), 3));
  const RequestId high = bureau.submit(request(prompt(4, 3), 3, 5));
  const RequestId second = bureau.submit(request(prompt(4, 4), 3));
  std::vector<RequestId> order;
  while (!bureau.scheduler().idle()) {
    bureau.tick();
    for (RequestId id : {low, first, high, second}) {
      if (bureau.ended(id) && std::ranges::count(order, id) == 0) order.push_back(id);
    }
  }
  EXPECT_EQ(order, (std::vector<RequestId>{high, first, second, low}));
  EXPECT_EQ(bureau.outcome(low).preemptions, 1);
  EXPECT_EQ(bureau.tokens(low), alone(request(prompt(4, 1), 6)));
}

// One place, and every tick a more important request.
TEST_F(SchedulerTest, LetsNobodyWaitForEver) {
  for (Index ageing : {Index{20}, Index{1000000}}) {
    Bureau bureau(decoder_, 8, {.rows = 32, .logit_rows = 1, .sequences = 1},
                  {.ageing_ticks = ageing});
    const RequestId patient = bureau.submit(request(prompt(4, 1), 4, -2));
    for (int tick = 0; tick < 200; ++tick) {
      bureau.submit(request(prompt(4, 2), 1));
      bureau.tick();
    }
    EXPECT_EQ(bureau.ended(patient), ageing == 20);
    bureau.finish();
  }
}

TEST_F(SchedulerTest, CancelsAtAnyMoment) {
  Bureau bureau(decoder_, 6, {.rows = 8, .logit_rows = 2, .sequences = 2});
  const RequestId runs = bureau.submit(request(prompt(4, 1), 20));
  const RequestId enters = bureau.submit(request(prompt(40, 2), 20));
  const RequestId waits = bureau.submit(request(prompt(4, 3), 20));
  for (int tick = 0; tick < 3; ++tick) bureau.tick();
  EXPECT_TRUE(bureau.scheduler().cancel(runs));
  EXPECT_TRUE(bureau.scheduler().cancel(enters));
  EXPECT_TRUE(bureau.scheduler().cancel(waits));
  EXPECT_FALSE(bureau.scheduler().cancel(77));
  bureau.tick();
  EXPECT_TRUE(bureau.scheduler().idle());
  Tokens expected = alone(request(prompt(4, 1), 20));
  expected.resize(bureau.tokens(runs).size());
  EXPECT_GT(expected.size(), 0u);
  EXPECT_EQ(bureau.tokens(runs), expected);
  for (RequestId id : {runs, enters, waits}) EXPECT_EQ(bureau.reason(id), Reason::cancelled);
  EXPECT_FALSE(bureau.scheduler().cancel(runs));
  EXPECT_EQ(bureau.pool().used_pages(), 0);
}

TEST_F(SchedulerTest, EndsWhatTookTooLongOrWasStopped) {
  Bureau bureau(decoder_, 6, limits_);
  Request late = request(prompt(4, 1), 20);
  late.options.max_seconds = 0;
  std::stop_source source;
  Request stopped = request(prompt(4, 1), 20);
  stopped.options.cancel = source.get_token();
  Request heard = request(prompt(4, 1), 20);
  heard.sink = [count = 0](Token) mutable { return ++count < 3; };
  const RequestId a = bureau.submit(late), b = bureau.submit(stopped), c = bureau.submit(heard);
  bureau.tick();
  source.request_stop();
  bureau.finish();
  EXPECT_EQ(bureau.reason(a), Reason::time);
  EXPECT_EQ(bureau.reason(b), Reason::cancelled);
  EXPECT_EQ(bureau.tokens(b).size(), 1u);
  EXPECT_EQ(bureau.reason(c), Reason::sink);
  EXPECT_EQ(bureau.tokens(c).size(), 3u);
}

// Whatever a request's own functions do to it, its neighbour's text goes on.
TEST_F(SchedulerTest, FailsTheGuiltyAlone) {
  const auto fails = [&](const auto& spoil) {
    Bureau bureau(decoder_, 12, limits_);
    const Request good = request(prompt(6, 1), 8);
    Request bad = request(prompt(6, 2), 8);
    spoil(bad);
    const RequestId before = bureau.submit(good), guilty = bureau.submit(bad);
    const RequestId after = bureau.submit(good);
    bureau.finish();
    EXPECT_EQ(bureau.reason(guilty), Reason::failed);
    EXPECT_TRUE(bureau.outcome(guilty).error);
    EXPECT_EQ(bureau.tokens(before), alone(good));
    EXPECT_EQ(bureau.tokens(after), alone(good));
    EXPECT_EQ(bureau.scheduler().statistics().failed, 1);
    return bureau.outcome(guilty).error;
  };
  const auto trouble = [] { throw std::runtime_error("trouble"); };
  fails([&](Request& of) { of.sink = [=](Token) { return trouble(), true; }; });
  fails([&](Request& of) { of.drafter = [=](const History&, Index, Tokens&) { trouble(); }; });
  fails([](Request& of) {
    of.drafter = [](const History&, Index, Tokens& guesses) { guesses = {64}; };
  });
  fails([](Request& of) {
    of.drafter = [](const History&, Index most, Tokens& guesses) {
      guesses.assign(static_cast<std::size_t>(most) + 1, 1);
    };
  });
  const auto none = fails([](Request& of) {
    static constexpr std::array<std::uint32_t, 2> kNothing = {};
    of.options.allowed = [](std::span<const Token>) { return std::span(kNothing); };
  });
  EXPECT_THROW(std::rethrow_exception(none), NoCandidate);
}

// From a sink, a mask and a drafter: to submit and to cancel is all right, the rest is refused.
TEST_F(SchedulerTest, IsCalledByTheFunctionsOfItsRequests) {
  const Request quiet = request(prompt(6, 1), 8);
  Request busy = quiet;
  Bureau bureau(decoder_, 12, limits_);
  Scheduler<codec::F32>& scheduler = bureau.scheduler();
  RequestId self = 0, other = 0;
  std::vector<RequestId> born;
  const auto call = [&] {
    EXPECT_FALSE(scheduler.preempt(self));
    EXPECT_FALSE(scheduler.preempt(other));
    EXPECT_THROW(scheduler.tick(), std::invalid_argument);
    if (born.size() < 9) born.push_back(bureau.submit(quiet));
    if (born.size() == 9) scheduler.cancel(other);
  };
  const std::vector<std::uint32_t> all(2, ~0u);
  busy.sink = [&](Token) { return call(), true; };
  busy.drafter = [&](const History&, Index) { return call(), std::span<const Token>(); };
  busy.options.allowed = [&](std::span<const Token>) { return call(), std::span(all); };
  self = bureau.submit(busy);
  other = bureau.submit(request(prompt(9, 2), 60));
  bureau.finish();
  EXPECT_EQ(born.size(), 9u);
  EXPECT_EQ(bureau.tokens(self), alone(quiet));
  EXPECT_EQ(bureau.reason(other), Reason::cancelled);
  for (RequestId id : born) EXPECT_EQ(bureau.tokens(id), alone(quiet));
}

// A token whose embedding is no number spoils the logits behind it, and nothing that others use.
TEST_F(SchedulerTest, KeepsBrokenNumbersToThemselves) {
  reference::Model toy = reference::toy();
  for (double& number : toy.embedding.row(63)) number = trial::kNaN;
  const model::Decoder decoder(toy.config, reference::to_weights(toy));
  Bureau bureau(decoder, 12, limits_);
  Tokens broken = prompt(40, 2);
  std::ranges::replace(broken, 63, 1);
  broken[35] = 63;
  Tokens beginning(broken.begin(), broken.begin() + 20);
  const RequestId guilty = bureau.submit(request(broken, 8));
  const RequestId neighbour = bureau.submit(request(beginning, 8));
  bureau.finish();
  EXPECT_EQ(bureau.reason(guilty), Reason::failed);
  EXPECT_TRUE(bureau.tokens(guilty).empty());
  EXPECT_THROW(std::rethrow_exception(bureau.outcome(guilty).error), BadLogits);
  EXPECT_EQ(bureau.reason(neighbour), Reason::length);
  EXPECT_EQ(bureau.tree().matched({}, broken), 16);  // what the neighbour left
}

TEST_F(SchedulerTest, ReusesWhatEarlierPromptsLeft) {
  Bureau bureau(decoder_, 20, limits_);
  const Tokens shared = prompt(50, 1);
  Request wanted = request(shared, 6);
  const RequestId first = bureau.submit(wanted);
  bureau.finish();
  wanted.prompt.push_back(9);
  const RequestId second = bureau.submit(wanted);
  Request stranger = wanted;
  stranger.space.tenant = 1;
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

TEST_F(SchedulerTest, SharesAPromptAsSoonAsItIsComputed) {
  Bureau bureau(decoder_, 20, limits_);
  const Request wanted = request(prompt(40, 1), 20);
  bureau.submit(wanted);
  for (int tick = 0; tick < 4; ++tick) bureau.tick();
  const RequestId second = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.outcome(second).generation.statistics.cached_tokens, 32);
  EXPECT_EQ(bureau.tokens(second), alone(wanted));
}

// Eight copies of the prompt would take 32 pages.
TEST_F(SchedulerTest, RunsManyOnThePagesOfOnePrompt) {
  Bureau bureau(decoder_, 20, {.rows = 64, .logit_rows = 8, .sequences = 8});
  const Tokens shared = prompt(64, 1);
  bureau.submit(request(shared, 1));
  bureau.finish();
  std::vector<RequestId> ids;
  Request wanted = request(shared, 10);
  wanted.prompt.push_back(3);
  for (int n = 0; n < 8; ++n) ids.push_back(bureau.submit(wanted));
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 8);
  bureau.finish();
  for (RequestId id : ids) EXPECT_EQ(bureau.tokens(id), alone(wanted));
}

// Four prompts that begin alike, at once: the first is computed, and then the others run on it.
TEST_F(SchedulerTest, ComputesOnceWhatPromptsThatComeTogetherShare) {
  Bureau bureau(decoder_, 40, limits_);
  std::vector<std::pair<RequestId, Request>> requests;
  for (Token own = 1; own <= 4; ++own) {
    Request wanted = request(prompt(70, 1), 8);
    wanted.prompt.push_back(own);
    requests.emplace_back(bureau.submit(wanted), wanted);
  }
  Request other = request(prompt(20, 2), 8);
  requests.emplace_back(bureau.submit(other), other);
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().running(), 2);  // the first, and the one that has nothing to share
  bureau.finish();
  for (const auto& [id, wanted] : requests) EXPECT_EQ(bureau.tokens(id), alone(wanted));
  EXPECT_EQ(bureau.scheduler().statistics().cached_tokens, 3 * 64);
}

// A prompt of whole pages that is kept, in a pool that has no page for a copy of the last.
TEST_F(SchedulerTest, GivesUpSharingWhereNoPageIsLeftForACopy) {
  Bureau bureau(decoder_, 2, limits_);
  const Request wanted = request(prompt(32, 1), 1);
  bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.pool().cached_pages(), 2);
  const RequestId again = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.tokens(again), alone(wanted));
}

TEST_F(SchedulerTest, LetsPromptsEnterInShares) {
  Bureau bureau(decoder_, 20, limits_, {.prompt_rows_beside_decoding = 5});
  const SchedulerStatistics& statistics = bureau.scheduler().statistics();
  const RequestId first = bureau.submit(request(prompt(40, 1), 12));
  bureau.tick();
  EXPECT_EQ(statistics.computed_tokens, 32);  // alone it has all rows
  bureau.tick();
  EXPECT_EQ(statistics.computed_tokens, 40);
  const RequestId second = bureau.submit(request(prompt(23, 2), 2));
  for (int tick = 1; tick <= 4; ++tick) {
    bureau.tick();
    EXPECT_EQ(statistics.computed_tokens, 40 + tick * 6);
  }
  bureau.tick();
  EXPECT_EQ(statistics.computed_tokens, 40 + 4 * 6 + 1 + 3);
  bureau.finish();
  EXPECT_EQ(bureau.tokens(first), alone(request(prompt(40, 1), 12)));
  EXPECT_EQ(bureau.tokens(second), alone(request(prompt(23, 2), 2)));
}

TEST_F(SchedulerTest, TakesGuessesWithTheRowsThatAreLeft) {
  Request wanted = request({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3}, 30);
  wanted.options.sampler.penalties.bias = {{1, 40.0f}};  // so that the text repeats itself
  const Tokens expected = alone(wanted);
  wanted.drafter = [](const History& history, Index most, Tokens& guesses) {
    const auto found = NgramDrafter{}.propose(history, most);
    guesses.assign(found.begin(), found.end());
  };
  Bureau bureau(decoder_, 20, limits_);
  const RequestId id = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.tokens(id), expected);
  const Statistics& statistics = bureau.outcome(id).generation.statistics;
  EXPECT_GT(statistics.accepted_tokens, 0);
  EXPECT_LT(bureau.scheduler().statistics().steps, 30);
  EXPECT_EQ(bureau.outcome(id).computed_tokens,
            11 + 30 - 1 + statistics.proposed_tokens - statistics.accepted_tokens);
}

TEST(SchedulerOfLearnedPositions, EndsWhereTheyDo) {
  const Tokens script = {1, 2, 3, 4, 5, 6};
  const model::Decoder decoder = reference::reciting_decoder(script, 8);
  Bureau bureau(decoder, 4, {.rows = 8, .logit_rows = 8, .sequences = 2});
  EXPECT_THROW(bureau.submit(request(Tokens(7, 1), 1)), std::invalid_argument);
  Request wanted = request({1, 2}, 1000);
  wanted.drafter = [&](const History&, Index most) {  // which are wrong
    return std::span(script).first(static_cast<std::size_t>(std::min<Index>(most, 2)));
  };
  const RequestId id = bureau.submit(wanted);
  bureau.finish();
  EXPECT_EQ(bureau.reason(id), Reason::positions_full);
  EXPECT_EQ(bureau.tokens(id).size(), 5u);
  EXPECT_EQ(bureau.tokens(id)[0], 3);
  const RequestId endless = bureau.submit(request({1, 2}, std::numeric_limits<Index>::max()));
  bureau.finish();
  EXPECT_EQ(bureau.tokens(endless), bureau.tokens(id));
}

TEST(SchedulerOfNothing, TicksInVain) {
  const model::Decoder decoder = reference::toy_decoder();
  Bureau bureau(decoder, 4, {.rows = 8, .logit_rows = 2, .sequences = 2});
  EXPECT_TRUE(bureau.scheduler().idle());
  bureau.tick();
  EXPECT_EQ(bureau.scheduler().statistics().steps, 0);
}

}  // namespace
}  // namespace decant::decoding
