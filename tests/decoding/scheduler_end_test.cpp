// tests/decoding/scheduler_end_test.cpp - how requests end that are cancelled, fail, or run out of
// time.
#include "decoding/scheduler_fixture.hpp"

#include <decant/core/executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <vector>

namespace decant::decoding {
namespace {

using namespace trial_requests;
using SchedulerEnd = SchedulerTest;

// The end of a request is reported by the next step if the step that ended it failed.
TEST_F(SchedulerEnd, ReportsEndsOfAFailedStepInTheNext) {
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
  scheduler.step();
  scheduler.cancel(goes);
  executor.fails = true;
  EXPECT_THROW(scheduler.step(), std::runtime_error);
  EXPECT_THROW(scheduler.step(), std::runtime_error);
  executor.fails = false;
  const auto events = scheduler.step();
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

TEST_F(SchedulerEnd, CancelsAtAnyMoment) {
  Bureau bureau(decoder_, 6, {.rows = 8, .logit_rows = 2, .sequences = 2});
  const RequestId runs = bureau.submit(request(prompt(4, 1), 20));
  const RequestId enters = bureau.submit(request(prompt(40, 2), 20));
  const RequestId waits = bureau.submit(request(prompt(4, 3), 20));
  for (int step = 0; step < 3; ++step) bureau.step();
  EXPECT_TRUE(bureau.scheduler().cancel(runs));
  EXPECT_TRUE(bureau.scheduler().cancel(enters));
  EXPECT_TRUE(bureau.scheduler().cancel(waits));
  EXPECT_FALSE(bureau.scheduler().cancel(77));
  bureau.step();
  EXPECT_TRUE(bureau.scheduler().idle());
  Tokens expected = alone(request(prompt(4, 1), 20));
  expected.resize(bureau.tokens(runs).size());
  EXPECT_GT(expected.size(), 0u);
  EXPECT_EQ(bureau.tokens(runs), expected);
  for (RequestId id : {runs, enters, waits}) EXPECT_EQ(bureau.reason(id), Reason::cancelled);
  EXPECT_FALSE(bureau.scheduler().cancel(runs));
  EXPECT_EQ(bureau.pool().used_pages(), 0);
}

TEST_F(SchedulerEnd, EndsRequestsThatTakeTooLongOrAreStopped) {
  Bureau bureau(decoder_, 6, limits_);
  Request late = request(prompt(4, 1), 20);
  late.options.max_seconds = 0;
  std::stop_source source;
  Request stopped = request(prompt(4, 1), 20);
  stopped.options.cancel = source.get_token();
  Request heard = request(prompt(4, 1), 20);
  heard.sink = [count = 0](Token) mutable { return ++count < 3; };
  const RequestId a = bureau.submit(late), b = bureau.submit(stopped), c = bureau.submit(heard);
  bureau.step();
  source.request_stop();
  bureau.finish();
  EXPECT_EQ(bureau.reason(a), Reason::time);
  EXPECT_EQ(bureau.reason(b), Reason::cancelled);
  EXPECT_EQ(bureau.tokens(b).size(), 1u);
  EXPECT_EQ(bureau.reason(c), Reason::sink);
  EXPECT_EQ(bureau.tokens(c).size(), 3u);
}

// If a request's own functions fail, only that request ends.
TEST_F(SchedulerEnd, FailsOnlyTheRequestWhoseFunctionThrows) {
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
  fails([&](Request& of) { of.drafter = [=](const History&, Index, Branches&) { trouble(); }; });
  fails([](Request& of) {
    of.drafter = [](const History&, Index, Branches& branches) { branches = {{64}}; };
  });
  fails([](Request& of) {
    of.drafter = [](const History&, Index most, Branches& branches) {
      branches.assign(1, Tokens(static_cast<std::size_t>(most) + 1, 1));
    };
  });
  const auto none = fails([](Request& of) {
    static constexpr std::array<std::uint32_t, 2> kNothing = {};
    of.options.allowed = [](std::span<const Token>) { return std::span(kNothing); };
  });
  EXPECT_THROW(std::rethrow_exception(none), NoCandidate);
}

// Sinks, masks and drafters may submit and cancel requests; all other calls are refused.
TEST_F(SchedulerEnd, MayBeCalledByTheFunctionsOfItsRequests) {
  const Request quiet = request(prompt(6, 1), 8);
  Request busy = quiet;
  Bureau bureau(decoder_, 12, limits_);
  Scheduler<codec::F32>& scheduler = bureau.scheduler();
  RequestId self = 0, other = 0;
  std::vector<RequestId> born;
  const auto call = [&] {
    EXPECT_FALSE(scheduler.preempt(self));
    EXPECT_FALSE(scheduler.preempt(other));
    EXPECT_THROW(scheduler.step(), std::invalid_argument);
    if (born.size() < 9) born.push_back(bureau.submit(quiet));
    if (born.size() == 9) scheduler.cancel(other);
  };
  const std::vector<std::uint32_t> all(2, ~0u);
  busy.sink = [&](Token) { return call(), true; };
  busy.drafter = [&](const History&, Index, Branches&) { call(); };
  busy.options.allowed = [&](std::span<const Token>) { return call(), std::span(all); };
  self = bureau.submit(busy);
  other = bureau.submit(request(prompt(9, 2), 60));
  bureau.finish();
  EXPECT_EQ(born.size(), 9u);
  EXPECT_EQ(bureau.tokens(self), alone(quiet));
  EXPECT_EQ(bureau.reason(other), Reason::cancelled);
  for (RequestId id : born) EXPECT_EQ(bureau.tokens(id), alone(quiet));
}

// A token whose embedding is NaN makes the logits after it NaN, and changes nothing of other
// requests.
TEST_F(SchedulerEnd, ConfinesNaNToItsOwnRequest) {
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

}  // namespace
}  // namespace decant::decoding
