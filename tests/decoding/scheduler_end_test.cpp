// tests/decoding/scheduler_end_test.cpp - requests that are cancelled, fail, or run out of time.
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

// The event of a request that ended in a step that threw arrives with the next step.
TEST_F(SchedulerEnd, DeliversTheEventsOfAFailedStepWithTheNext) {
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
  Scheduler scheduler(decoder_, workspace, pool);
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
  SchedulerHarness harness(decoder_, 6, {.rows = 8, .logit_rows = 2, .sequences = 2});
  const RequestId runs = harness.submit(request(prompt(4, 1), 20));
  const RequestId enters = harness.submit(request(prompt(40, 2), 20));
  const RequestId waits = harness.submit(request(prompt(4, 3), 20));
  for (int step = 0; step < 3; ++step) harness.step();
  EXPECT_TRUE(harness.scheduler().cancel(runs));
  EXPECT_TRUE(harness.scheduler().cancel(enters));
  EXPECT_TRUE(harness.scheduler().cancel(waits));
  EXPECT_FALSE(harness.scheduler().cancel(77));
  harness.step();
  EXPECT_TRUE(harness.scheduler().idle());
  Tokens expected = alone(request(prompt(4, 1), 20));
  expected.resize(harness.tokens(runs).size());
  EXPECT_GT(expected.size(), 0u);
  EXPECT_EQ(harness.tokens(runs), expected);
  for (RequestId id : {runs, enters, waits}) EXPECT_EQ(harness.reason(id), Reason::cancelled);
  EXPECT_FALSE(harness.scheduler().cancel(runs));
  EXPECT_EQ(harness.pool().used_pages(), 0);
}

TEST_F(SchedulerEnd, EndsRequestsAtTheirTimeLimitAndWhenStopped) {
  SchedulerHarness harness(decoder_, 6, limits_);
  Request late = request(prompt(4, 1), 20);
  late.options.max_seconds = 0;
  std::stop_source source;
  Request stopped = request(prompt(4, 1), 20);
  stopped.options.cancel = source.get_token();
  Request heard = request(prompt(4, 1), 20);
  heard.sink = [count = 0](Token) mutable { return ++count < 3; };
  const RequestId a = harness.submit(late), b = harness.submit(stopped), c = harness.submit(heard);
  harness.step();
  source.request_stop();
  harness.finish();
  EXPECT_EQ(harness.reason(a), Reason::time);
  EXPECT_EQ(harness.reason(b), Reason::cancelled);
  EXPECT_EQ(harness.tokens(b).size(), 1u);
  EXPECT_EQ(harness.reason(c), Reason::sink);
  EXPECT_EQ(harness.tokens(c).size(), 3u);
}

// A request's own functions may fail; the texts of the others go on.
TEST_F(SchedulerEnd, EndsOnlyTheRequestThatFails) {
  const auto fails = [&](const auto& spoil) {
    SchedulerHarness harness(decoder_, 12, limits_);
    const Request good = request(prompt(6, 1), 8);
    Request bad = request(prompt(6, 2), 8);
    spoil(bad);
    const RequestId before = harness.submit(good), failing = harness.submit(bad);
    const RequestId after = harness.submit(good);
    harness.finish();
    EXPECT_EQ(harness.reason(failing), Reason::failed);
    EXPECT_TRUE(harness.outcome(failing).error);
    EXPECT_EQ(harness.tokens(before), alone(good));
    EXPECT_EQ(harness.tokens(after), alone(good));
    EXPECT_EQ(harness.scheduler().statistics().failed, 1);
    return harness.outcome(failing).error;
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

// A sink, a mask and a drafter may submit and cancel; the rest is refused.
TEST_F(SchedulerEnd, MayBeCalledByTheFunctionsOfItsRequests) {
  const Request quiet = request(prompt(6, 1), 8);
  Request busy = quiet;
  SchedulerHarness harness(decoder_, 12, limits_);
  Scheduler& scheduler = harness.scheduler();
  RequestId self = 0, other = 0;
  std::vector<RequestId> born;
  const auto call = [&] {
    EXPECT_FALSE(scheduler.preempt(self));
    EXPECT_FALSE(scheduler.preempt(other));
    EXPECT_THROW(scheduler.step(), std::invalid_argument);
    if (born.size() < 9) born.push_back(harness.submit(quiet));
    if (born.size() == 9) scheduler.cancel(other);
  };
  const std::vector<std::uint32_t> all(2, ~0u);
  busy.sink = [&](Token) { return call(), true; };
  busy.drafter = [&](const History&, Index, Branches&) { call(); };
  busy.options.allowed = [&](std::span<const Token>) { return call(), std::span(all); };
  self = harness.submit(busy);
  other = harness.submit(request(prompt(9, 2), 60));
  harness.finish();
  EXPECT_EQ(born.size(), 9u);
  EXPECT_EQ(harness.tokens(self), alone(quiet));
  EXPECT_EQ(harness.reason(other), Reason::cancelled);
  for (RequestId id : born) EXPECT_EQ(harness.tokens(id), alone(quiet));
}

// A token whose embedding is NaN makes its own sequence's logits NaN, and no other request's.
TEST_F(SchedulerEnd, SpreadsNoNaNToOtherRequests) {
  reference::Model toy = reference::toy();
  for (double& number : toy.embedding.row(63)) number = trial::kNaN;
  const model::Decoder decoder(toy.config, reference::to_weights(toy));
  SchedulerHarness harness(decoder, 12, limits_);
  Tokens broken = prompt(40, 2);
  std::ranges::replace(broken, 63, 1);
  broken[35] = 63;
  Tokens beginning(broken.begin(), broken.begin() + 20);
  const RequestId failing = harness.submit(request(broken, 8));
  const RequestId neighbour = harness.submit(request(beginning, 8));
  harness.finish();
  EXPECT_EQ(harness.reason(failing), Reason::failed);
  EXPECT_TRUE(harness.tokens(failing).empty());
  EXPECT_THROW(std::rethrow_exception(harness.outcome(failing).error), BadLogits);
  EXPECT_EQ(harness.reason(neighbour), Reason::length);
  EXPECT_EQ(harness.tree().matched({}, broken), 16);  // what the neighbour left
}

}  // namespace
}  // namespace decant::decoding
