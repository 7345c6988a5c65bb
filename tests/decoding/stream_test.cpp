// tests/decoding/stream_test.cpp - streams that are polled or awaited, callbacks, and what a
// service runs between steps.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/service.hpp>
#include <decant/decoding/stream.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Tokens = std::vector<Token>;
using std::chrono::milliseconds;

// A coroutine that nobody waits for.
struct Detached {
  struct promise_type {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

// Takes the tokens of a stream as they come, and then fulfils its promise.
Detached collect(Stream stream, std::promise<Tokens>& promise) {
  Tokens tokens;
  while (const auto token = co_await stream) tokens.push_back(*token);
  EXPECT_TRUE(stream.done());
  promise.set_value(std::move(tokens));
}

class StreamTest : public testing::Test {
 protected:
  Request request(unsigned seed, Index new_tokens) const {
    Request wanted = {.prompt = trial::random_tokens(decoder_.config(), 3 + seed % 40, seed),
                      .options = {.max_new_tokens = new_tokens}};
    wanted.options.sampler = {.temperature = 0.9, .seed = seed};
    return wanted;
  }
  Tokens alone(const Request& request) const {
    kv::Contiguous<codec::F32> store(decoder_.config().geometry(), 400);
    model::Workspace workspace(decoder_.config(), {.rows = 64});
    return generate(decoder_, store, workspace, request.prompt, request.options).tokens;
  }
  // A request whose first token comes when `open` is set.
  Request gated(std::shared_future<void> open) const {
    Request wanted = request(3, 4);
    wanted.sink = [open = std::move(open)](Token) {
      open.wait();
      return true;
    };
    return wanted;
  }

  static constexpr Index kMany = trial::kSlowBuild ? 16 : 64;

  model::Decoder decoder_ = reference::toy_decoder();
  model::Workspace workspace_{decoder_.config(), scheduler_limits(8, 32)};
  kv::PagePool<codec::F32> pool_{decoder_.config().geometry(), 24, 16};
  kv::PrefixTree<codec::F32> tree_{pool_};
  Scheduler scheduler_{decoder_, workspace_, pool_, {}, &tree_};
};

TEST_F(StreamTest, ArePolledWithoutWaiting) {
  Service service(scheduler_);
  std::promise<void> gate;
  Stream stream = service.submit(gated(gate.get_future().share()));
  EXPECT_EQ(stream.try_next(), std::nullopt);
  EXPECT_EQ(stream.next_for(milliseconds(5)), std::nullopt);
  EXPECT_FALSE(stream.done());
  EXPECT_FALSE(stream.outcome());
  gate.set_value();
  Tokens tokens;
  while (!stream.done()) {
    if (const auto token = stream.try_next()) tokens.push_back(*token);
    if (const auto token = stream.next_for(milliseconds(1))) tokens.push_back(*token);
  }
  EXPECT_EQ(tokens, alone(request(3, 4)));
  EXPECT_EQ(stream.outcome()->generation.reason, Reason::length);
  EXPECT_EQ(stream.next(), std::nullopt);
}

TEST_F(StreamTest, HaveTheIdsOfTheirRequests) {
  Service service(scheduler_);
  Stream first = service.submit(request(1, 2)), second = service.submit(request(2, 2));
  EXPECT_EQ(first.id(), 1u);
  EXPECT_EQ(second.id(), 2u);
  first = std::move(second);
  EXPECT_EQ(first.id(), 2u);
}

TEST_F(StreamTest, AreAwaitedWithoutAThreadForEach) {
  Service service(scheduler_);
  std::vector<std::promise<Tokens>> promises(kMany);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t n = thread; n < promises.size(); n += 2) {
        const auto seed = static_cast<unsigned>(n);
        collect(service.submit(request(seed, 1 + seed % 9)), promises[n]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < promises.size(); ++n) {
    const auto seed = static_cast<unsigned>(n);
    EXPECT_EQ(promises[n].get_future().get(), alone(request(seed, 1 + seed % 9)));
  }
}

TEST_F(StreamTest, EndForCoroutinesWhenTheServiceIsDestroyed) {
  std::promise<Tokens> promise;
  {
    Service service(scheduler_);
    Request slow = request(3, 300);
    slow.sink = [](Token) {
      std::this_thread::sleep_for(milliseconds(2));
      return true;
    };
    collect(service.submit(slow), promise);
  }
  EXPECT_LT(promise.get_future().get().size(), 300u);
  EXPECT_TRUE(scheduler_.idle());
}

TEST_F(StreamTest, AreNotNeededWithCallbacks) {
  std::vector<Tokens> tokens(kMany);
  std::vector<std::promise<Outcome>> outcomes(kMany);
  Service service(scheduler_);
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    Request wanted = request(static_cast<unsigned>(n), 5);
    wanted.sink = [&into = tokens[n]](Token token) {
      into.push_back(token);
      return true;
    };
    const RequestId id = service.submit(
        wanted, [&outcome = outcomes[n]](const Outcome& with) { outcome.set_value(with); });
    EXPECT_EQ(id, n + 1);
  }
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const Outcome outcome = outcomes[n].get_future().get();
    EXPECT_EQ(outcome.generation.reason, Reason::length);
    EXPECT_EQ(outcome.generation.tokens, tokens[n]);
    EXPECT_EQ(tokens[n], alone(request(static_cast<unsigned>(n), 5)));
  }
  EXPECT_THROW(service.submit(request(1, 2), {}), std::invalid_argument);
}

TEST_F(StreamTest, AreCancelledByTheTokenOfACallback) {
  Service service(scheduler_);
  std::stop_source source;
  Request wanted = request(3, 300);
  wanted.options.cancel = source.get_token();
  wanted.sink = [&](Token) {
    source.request_stop();
    return true;
  };
  std::promise<Reason> reason;
  service.submit(wanted, [&](const Outcome& with) { reason.set_value(with.generation.reason); });
  EXPECT_EQ(reason.get_future().get(), Reason::cancelled);
}

// One request runs and holds the service's thread; as many wait as may.
TEST_F(StreamTest, AreRefusedWhenTheQueueIsFull) {
  Service service(scheduler_, {.max_waiting = 2});
  std::promise<void> gate, begun;
  Request holding = gated(gate.get_future().share());
  holding.sink = [&begun, inner = holding.sink, first = true](const NewToken& token) mutable {
    if (std::exchange(first, false)) begun.set_value();
    return inner(token);
  };
  Stream running = service.submit(holding);
  begun.get_future().wait();
  std::vector<Stream> waiting;
  while (waiting.size() < 2) {
    try {
      waiting.push_back(service.submit(request(4, 2)));
    } catch (const QueueFull&) {  // the running one still counts as waiting
      EXPECT_EQ(waiting.size(), 1u);
      break;
    }
  }
  EXPECT_THROW(static_cast<void>(service.submit(request(5, 2))), QueueFull);
  EXPECT_EQ(service.metrics().waiting, 2);
  gate.set_value();
  EXPECT_EQ(running.wait().generation.reason, Reason::length);
  for (Stream& stream : waiting) EXPECT_EQ(stream.wait().generation.tokens, alone(request(4, 2)));
  Stream later = service.submit(request(5, 2));
  EXPECT_EQ(later.wait().generation.tokens, alone(request(5, 2)));
}

TEST_F(StreamTest, LeaveRoomForFunctionsBetweenSteps) {
  Service service(scheduler_);
  EXPECT_EQ(service.run([&] { return tree_.pages(); }), 0);  // while it is idle
  Stream stream = service.submit(request(39, 20));
  EXPECT_EQ(stream.next(), alone(request(39, 20)).front());
  const auto thread = service.run([] { return std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_GT(service.run([&] { return tree_.pages(); }), 0);
  EXPECT_THROW(service.run([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(stream.wait().generation.tokens, alone(request(39, 20)));
  Request asking = request(4, 2);
  std::atomic<bool> asked = false;
  asking.sink = [&](Token) {
    service.run([&] { asked = true; });  // at once, in the service's thread
    return true;
  };
  EXPECT_EQ(service.submit(asking).wait().generation.reason, Reason::length);
  EXPECT_TRUE(asked);
}

TEST_F(StreamTest, AreCountedInOneValue) {
  Service service(scheduler_);
  std::promise<void> gate, begun;
  Request holding = gated(gate.get_future().share());
  Stream running = service.submit(holding), waiting = service.submit(request(4, 2));
  EXPECT_LE(service.metrics().running + service.metrics().waiting, 2);
  gate.set_value();
  running.wait();
  waiting.wait();
  const ServiceMetrics metrics = service.metrics();
  EXPECT_EQ(metrics.totals.ended, 2);
  EXPECT_EQ(metrics.running + metrics.waiting, 0);
}

}  // namespace
}  // namespace decant::decoding
