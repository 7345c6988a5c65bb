// tests/decoding/scheduler_fault_test.cpp - requests that are cancelled, refused and preempted,
// and allocations that fail: nothing is lost, and no request waits for ever.
#include "decoding/models.hpp"
#include "law/allocations.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/service.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using FaultPool = kv::PagePool<codec::F32>;
using FaultTree = kv::PrefixTree<codec::F32>;

// What a scheduler borrows.
struct Borrowed {
  explicit Borrowed(const model::Decoder& decoder)
      : workspace(decoder.config(), {.rows = 24, .logit_rows = 8, .sequences = 5}),
        pool(decoder.config().geometry(), 9, 16),
        tree(pool, 6) {}

  model::Workspace workspace;
  FaultPool pool;
  FaultTree tree;
};

// A number in [0, count).
template <class Number = Index>
Number below(std::mt19937& random, unsigned count) {
  return static_cast<Number>(random() % count);
}

Request some_request(const model::Config& config, std::mt19937& random) {
  Request request = {
      .prompt = trial::random_tokens(config, 1 + below(random, 24), below<unsigned>(random, 50)),
      .options = {.max_new_tokens = below(random, 10)},
      .priority = below<int>(random, 3)};
  request.options.sampler = {.temperature = 0.7, .seed = random()};
  if (below(random, 3) == 0) {  // stop strings of two tokens, too long to need no allocation
    request.options.text = [](std::optional<Token> token) {
      return token ? std::string(20, static_cast<char>('a' + *token % 3)) : "";
    };
    request.options.stop.stop_strings = {std::string(20, 'a') + std::string(20, 'b'),
                                         std::string(40, 'c')};
  }
  if (below(random, 50) == 0) {
    request.options.logits_processors = {[](const History& history, std::span<float>) {
      if (history.tokens.size() % 7 == 3) throw std::runtime_error("a processor");
    }};
  }
  if (below(random, 50) == 0) request.prompt.resize(200, 1);  // which has no room
  return request;
}

// A run of requests with every kind of fault; allocations of steps and of submissions fail.
class StressRun {
 public:
  StressRun(const model::Decoder& decoder, Index requests)
      : decoder_(decoder),
        requests_(requests),
        borrowed_(decoder),
        scheduler_(decoder, borrowed_.workspace, borrowed_.pool, {.ageing_steps = 30},
                   &borrowed_.tree) {}

  void run() {
    while (submitted_ + refused_ < requests_ || !scheduler_.idle()) {
      // Some wait in line, but not all.
      while (submitted_ + refused_ < requests_ && scheduler_.waiting() < 12) submit();
      if (below(random_, 10) == 0)
        scheduler_.cancel(1 + below<RequestId>(random_, static_cast<unsigned>(requests_)));
      if (below(random_, 10) == 0) {
        scheduler_.cancel(static_cast<RequestId>(submitted_) - below<RequestId>(random_, 15));
      }
      step();
    }
  }

  void check() const {
    const SchedulerStatistics& statistics = scheduler_.statistics();
    EXPECT_EQ(statistics.submitted, submitted_);
    EXPECT_EQ(statistics.ended, submitted_);
    EXPECT_TRUE(since_.empty());  // every end had its event
    EXPECT_EQ(borrowed_.pool.used_pages(), 0);
    EXPECT_EQ(borrowed_.pool.free_pages() + borrowed_.pool.cached_pages(), 9);
    EXPECT_EQ(borrowed_.tree.pages(), borrowed_.pool.cached_pages());
    // Every kind of fault occurred.
    EXPECT_GT(refused_, requests_ / 100);
    EXPECT_GT(failed_steps_, requests_ / 100);
    EXPECT_GT(statistics.failed, requests_ / 1000);
    EXPECT_GT(statistics.preemptions, requests_ / 100);
    EXPECT_GT(reasons_.at(Reason::cancelled), requests_ / 100);
    EXPECT_GT(reasons_.at(Reason::length), requests_ / 2);
    EXPECT_GT(reasons_.at(Reason::stop_string), requests_ / 50);
    EXPECT_GT(reasons_.at(Reason::failed), requests_ / 200);
    // Priority 0 waits while 30 steps of others come first; no one much longer.
    EXPECT_LT(longest_, 400);
  }

 private:
  void submit() {
    Request request = some_request(decoder_.config(), random_);
    const std::vector<Token> prompt = request.prompt;
    const GenerateOptions options = request.options;
    until_failure() = below(random_, 40) == 0 ? below<long>(random_, 12) : -1;
    try {
      const RequestId id = scheduler_.submit(std::move(request));
      until_failure() = -1;
      submitted_ += 1;
      since_.emplace(id, steps_);
      if (id % 64 == 0 && options.logits_processors.empty()) {
        expected_.emplace(id, alone(prompt, options));
      }
    } catch (const std::exception&) {  // no memory, or no room
      until_failure() = -1;
      refused_ += 1;
    }
  }

  void step() {
    steps_ += 1;
    until_failure() = below(random_, 5) == 0 ? below<long>(random_, 8) : -1;
    std::span<Event> events;
    try {
      events = scheduler_.step();
      until_failure() = -1;
    } catch (const std::bad_alloc&) {
      until_failure() = -1;
      failed_steps_ += 1;
    }
    for (const Event& event : events) {
      auto& tokens = tokens_[event.request];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.outcome) end(event.request, *event.outcome);
    }
    const FaultPool& pool = borrowed_.pool;
    ASSERT_EQ(pool.free_pages() + pool.used_pages() + pool.cached_pages(), 9);
  }

  void end(RequestId id, const Outcome& outcome) {
    const std::vector<Token>& told = outcome.generation.tokens;
    ASSERT_EQ(tokens_.at(id), told);
    ASSERT_EQ(since_.count(id), 1u) << "ended twice";
    longest_ = std::max(longest_, steps_ - since_.at(id));
    reasons_[outcome.generation.reason] += 1;
    EXPECT_EQ(outcome.error != nullptr, outcome.generation.reason == Reason::failed);
    if (const auto at = expected_.find(id); at != expected_.end()) {
      auto expected = at->second;
      const Reason reason = outcome.generation.reason;
      if (reason != Reason::length && reason != Reason::stop_string) expected.resize(told.size());
      EXPECT_EQ(told, expected);
    }
    since_.erase(id);
    tokens_.erase(id);
  }

  std::vector<Token> alone(const std::vector<Token>& prompt, const GenerateOptions& options) const {
    kv::Contiguous<codec::F32> store(decoder_.config().geometry(), 64);
    model::Workspace workspace(decoder_.config(), {.rows = 64});
    return generate(decoder_, store, workspace, prompt, options).tokens;
  }

  static std::atomic<long>& until_failure() { return trial::until_failure; }

  const model::Decoder& decoder_;
  Index requests_;
  Borrowed borrowed_;
  Scheduler scheduler_;
  std::mt19937 random_{3};
  Index submitted_ = 0, refused_ = 0, failed_steps_ = 0, steps_ = 0, longest_ = 0;
  std::map<RequestId, Index> since_;
  std::map<RequestId, std::vector<Token>> tokens_;
  std::map<RequestId, std::vector<Token>> expected_;  // of some
  std::map<Reason, Index> reasons_;
};

// DECANT_STORM_REQUESTS overrides how many.
Index storm_requests() {
  const char* asked = std::getenv("DECANT_STORM_REQUESTS");
  if (asked != nullptr) return std::atol(asked);
  return trial::kSlowBuild ? 1500 : 20000;
}

TEST(SchedulerFault, LeavesNothingBehindAfterAStressRun) {
  const model::Decoder decoder = reference::toy_decoder();
  StressRun stress(decoder, storm_requests());
  stress.run();
  stress.check();
}

// The allocations of a short run fail one by one, wherever they are; the run goes on. Only what
// fails while a token is taken may end a request.
TEST(SchedulerFault, GoesOnAfterAFailedAllocation) {
  const model::Decoder decoder = reference::toy_decoder();
  const auto prompt = trial::random_tokens(decoder.config(), 30, 1);
  std::vector<Token> expected;
  long point = 0;
  Index failed_steps = 0, failed_requests = 0;
  for (bool more = true; more; ++point) {
    Borrowed borrowed(decoder);
    Scheduler scheduler(decoder, borrowed.workspace, borrowed.pool, {}, &borrowed.tree);
    for (Index n = 0; n < 3; ++n) {
      Request request = {.prompt = prompt, .options = {.max_new_tokens = 5}};
      request.options.text = [](std::optional<Token>) { return std::string(20, 'a'); };
      request.options.stop.stop_strings = {std::string(200, 'a')};  // all tokens are held back
      scheduler.submit(std::move(request));
    }
    std::array<Index, 4> told = {};  // tokens of each, whose id is 1, 2 or 3
    trial::until_failure = point;
    while (!scheduler.idle()) {
      std::span<Event> events;
      try {
        events = scheduler.step();
      } catch (const std::bad_alloc&) {
        failed_steps += 1;
        continue;
      }
      const long pending = trial::until_failure.exchange(-1);  // what the test does may not fail
      for (const Event& event : events) {
        told[event.request] += std::ssize(event.tokens);
        if (!event.outcome) continue;
        EXPECT_EQ(told[event.request], std::ssize(event.outcome->generation.tokens));
        const std::vector<Token>& tokens = event.outcome->generation.tokens;
        if (expected.empty() && !event.outcome->error) expected = tokens;
        if (event.outcome->error) {
          failed_requests += 1;
          EXPECT_THROW(std::rethrow_exception(event.outcome->error), std::bad_alloc);
        } else {
          EXPECT_EQ(tokens, expected);
        }
      }
      trial::until_failure = pending;
    }
    more = trial::until_failure < 0;  // it has failed
    trial::until_failure = -1;
    EXPECT_EQ(borrowed.pool.used_pages(), 0);
    EXPECT_EQ(borrowed.tree.pages(), borrowed.pool.cached_pages());
  }
  EXPECT_GT(point, 20);
  EXPECT_GT(failed_steps, 10);
  EXPECT_GT(failed_requests, 0);
}

// Each allocation fails once, in whichever thread: a request that does not give its whole text
// reports a failure and has ended.
TEST(ServiceFault, LosesNoRequestWhenAllocationsFail) {
  const model::Decoder decoder = reference::toy_decoder();
  Borrowed borrowed(decoder);
  Request wanted = {.prompt = trial::random_tokens(decoder.config(), 8, 5),
                    .options = {.max_new_tokens = 6}};
  std::atomic<Index> heard = 0;
  wanted.sink = [&](Token) { return ++heard > 0; };
  Index failures = 0;
  for (long at = 0; at < 1000; ++at) {
    Scheduler scheduler(decoder, borrowed.workspace, borrowed.pool, {}, &borrowed.tree);
    Index tokens = 0;
    std::exception_ptr error;
    heard = 0;
    trial::until_failure = at;
    try {
      Service service(scheduler);
      Stream stream = service.submit(wanted);
      while (stream.next()) tokens += 1;
      error = stream.wait().error;
      while (service.metrics().totals.ended < service.metrics().totals.submitted)
        std::this_thread::yield();
      EXPECT_LE(heard, error ? tokens + 1 : 6);
    } catch (const std::bad_alloc&) {
      error = std::current_exception();
    }
    const bool failed = trial::until_failure.exchange(-1) < 0;
    failures += error != nullptr;
    EXPECT_TRUE(error || tokens == 6);
    scheduler.step();
    EXPECT_TRUE(scheduler.idle());
    EXPECT_EQ(borrowed.pool.used_pages(), 0);
    if (!failed) break;
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace decant::decoding
