// tests/decoding/service_test.cpp - many threads submit requests to one scheduler, and get the
// tokens of runs alone.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/service.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Tokens = std::vector<Token>;

class ServiceTest : public testing::Test {
 protected:
  ServiceTest()
      : decoder_(reference::toy_decoder()),
        workspace_(decoder_.config(), {.rows = 32, .logit_rows = 8, .sequences = 8}),
        pool_(decoder_.config().geometry(), 24, 16),
        tree_(pool_),
        scheduler_(decoder_, workspace_, pool_, {}, &tree_) {}

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
  // One that takes longer than any thread waits.
  Request slow() const {
    Request wanted = request(3, 300);
    wanted.sink = [](Token) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return true;
    };
    return wanted;
  }
  static Tokens read(Stream& stream) {
    Tokens tokens;
    while (const auto token = stream.next()) tokens.push_back(*token);
    return tokens;
  }

  model::Decoder decoder_;
  model::Workspace workspace_;
  kv::PagePool<codec::F32> pool_;
  kv::PrefixTree<codec::F32> tree_;
  Scheduler scheduler_;
};

// While the service's thread is in a sink for 60 ms, another request waits to be taken in.
TEST_F(ServiceTest, CountsTheQueueFromSubmission) {
  std::promise<void> in_sink;
  Request blocking = request(3, 1);
  blocking.sink = [&](Token) {
    in_sink.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return true;
  };
  Service service(scheduler_);
  Stream first = service.submit(blocking);
  in_sink.get_future().wait();
  const auto submitted = std::chrono::steady_clock::now();
  Stream second = service.submit(request(4, 2));
  read(first);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - submitted;
  const Outcome outcome = second.wait();
  EXPECT_GE(outcome.queue_seconds, waited.count() / 2);
  EXPECT_GE(outcome.generation.statistics.time_to_first_token, outcome.queue_seconds);
}

TEST_F(ServiceTest, AnswersManyThreads) {
  const Index each = trial::kSlowBuild ? 6 : 25;
  {
    Service service(scheduler_);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (unsigned n = 0; n < each; ++n) {
          const Request wanted = request(100 * thread + n, 1 + n % 12);
          Stream stream = service.submit(wanted);
          if (n % 5 == 4) {
            stream.next();
            stream.cancel();
            stream.wait();
            continue;
          }
          const Tokens tokens = read(stream);
          EXPECT_EQ(tokens, alone(wanted));
          EXPECT_EQ(stream.wait().generation.tokens, tokens);
          EXPECT_EQ(stream.wait().generation.reason, Reason::length);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(scheduler_.statistics().ended, 8 * each);
  EXPECT_TRUE(scheduler_.idle());
  EXPECT_EQ(pool_.used_pages(), 0);
}

TEST_F(ServiceTest, HasCountedARequestWhenItsEndIsKnown) {
  Service service(scheduler_);
  for (Index n = 1; n <= (trial::kSlowBuild ? 20 : 300); ++n) {
    Stream stream = service.submit(request(1, 2));
    stream.wait();
    ASSERT_EQ(service.metrics().totals.ended, n);
  }
}

TEST_F(ServiceTest, RefusesInvalidRequestsAtOnceAndGoesOn) {
  Service service(scheduler_);
  EXPECT_THROW(static_cast<void>(service.submit(Request{})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(service.submit(request(1, 1000))), CacheFull);
  Request own = request(1, 4);
  std::stop_source source;
  own.options.cancel = source.get_token();
  EXPECT_THROW(static_cast<void>(service.submit(own)), std::invalid_argument);
  Stream stream = service.submit(request(1, 4));
  EXPECT_EQ(read(stream), alone(request(1, 4)));
}

TEST_F(ServiceTest, DeliversTheErrorOfAFailedRequest) {
  Service service(scheduler_);
  Request bad = request(1, 8);
  bad.sink = [count = 0](Token) mutable {
    if (++count == 3) throw std::runtime_error("trouble");
    return true;
  };
  Stream failing = service.submit(bad), other = service.submit(request(2, 8));
  EXPECT_EQ(read(failing).size(), 3u);
  EXPECT_EQ(failing.wait().generation.reason, Reason::failed);
  EXPECT_THROW(std::rethrow_exception(failing.wait().error), std::runtime_error);
  EXPECT_EQ(read(other), alone(request(2, 8)));
}

// An executor that fails for a while, and then for good.
TEST_F(ServiceTest, SurvivesFailingSteps) {
  struct Moody final : Executor {
    std::atomic<int> failures = 3;
    Index threads() const noexcept override { return 1; }
    void parallel_for(Index count, FunctionRef<void(Index, Index)> work) override {
      if (failures > 0 && failures-- > 0) throw std::runtime_error("no step today");
      serial_executor().parallel_for(count, work);
    }
  } moody;
  model::Workspace workspace(decoder_.config(), {.rows = 32, .logit_rows = 8, .sequences = 8},
                             moody);
  Scheduler scheduler(decoder_, workspace, pool_, {}, &tree_);
  Service service(scheduler);
  Stream first = service.submit(request(5, 6));
  EXPECT_EQ(read(first), alone(request(5, 6)));
  for (int time = 0; time < 3; ++time) {  // each of which is forgotten
    moody.failures = 5;
    Stream again = service.submit(request(5, 6));
    EXPECT_EQ(read(again), alone(request(5, 6)));
  }
  moody.failures = 1 << 30;
  Request given_up = request(5, 6);
  std::atomic<int> heard = 0;
  given_up.sink = [&](Token) { return ++heard > 0; };
  Stream second = service.submit(given_up);
  EXPECT_TRUE(read(second).empty());
  EXPECT_THROW(std::rethrow_exception(second.wait().error), std::runtime_error);
  EXPECT_EQ(heard, 0);
  for (int round = 0; round < 3; ++round) {  // whenever they come
    Stream more = service.submit(request(5, 6)), also = service.submit(request(6, 6));
    EXPECT_TRUE(read(more).empty());
    EXPECT_EQ(also.wait().generation.reason, Reason::failed);
  }
  moody.failures = 0;
  Stream third = service.submit(request(5, 6));
  EXPECT_EQ(read(third), alone(request(5, 6)));
  EXPECT_EQ(heard, 0);
}

// A request that arrives after all others were ended by an error, while steps still fail.
TEST_F(ServiceTest, EndsNewRequestsTooWhileStepsFail) {
  struct Broken final : Executor {
    std::function<void()> meanwhile;
    int steps = 0;
    Index threads() const noexcept override { return 1; }
    void parallel_for(Index, FunctionRef<void(Index, Index)>) override {
      if (++steps == 8) meanwhile();
      throw std::runtime_error("no step at all");
    }
  } broken;
  model::Workspace workspace(decoder_.config(), {.rows = 32, .logit_rows = 8, .sequences = 8},
                             broken);
  Scheduler scheduler(decoder_, workspace, pool_, {}, &tree_);
  Service service(scheduler);
  std::promise<Stream> late;
  broken.meanwhile = [&] { late.set_value(service.submit(request(6, 6))); };
  Stream first = service.submit(request(5, 6));
  EXPECT_THROW(std::rethrow_exception(first.wait().error), std::runtime_error);
  EXPECT_THROW(std::rethrow_exception(late.get_future().get().wait().error), std::runtime_error);
}

TEST_F(ServiceTest, CancelsRemainingRequestsWhenDestroyed) {
  std::optional<Stream> stream;
  {
    Service service(scheduler_);
    stream = service.submit(slow());
    EXPECT_TRUE(stream->next());
  }
  Tokens tokens = read(*stream);
  EXPECT_LT(tokens.size(), 299u);
  EXPECT_EQ(stream->wait().generation.reason, Reason::cancelled);
  Tokens expected = alone(request(3, 300));
  expected.resize(stream->wait().generation.tokens.size());
  EXPECT_EQ(stream->wait().generation.tokens, expected);
  EXPECT_TRUE(scheduler_.idle());
  EXPECT_EQ(pool_.used_pages(), 0);
}

// A request that ends because steps fail has the tokens before the failure.
TEST_F(ServiceTest, DeliversTheTokensBeforeAFailure) {
  struct Tiring final : Executor {
    std::atomic<bool> tired = false;
    Index threads() const noexcept override { return 1; }
    void parallel_for(Index count, FunctionRef<void(Index, Index)> work) override {
      if (tired) throw std::runtime_error("no step any more");
      serial_executor().parallel_for(count, work);
    }
  } executor;
  model::Workspace workspace(decoder_.config(), {.rows = 32, .logit_rows = 8, .sequences = 8},
                             executor);
  Scheduler scheduler(decoder_, workspace, pool_);
  Request wanted = request(3, 300);
  wanted.sink = [&, count = 0](Token) mutable {
    executor.tired = ++count == 5;
    return true;
  };
  Service service(scheduler);
  Stream stream = service.submit(wanted);
  EXPECT_EQ(read(stream).size(), 5u);
  EXPECT_EQ(stream.wait().generation.tokens.size(), 5u);
  EXPECT_EQ(stream.wait().generation.reason, Reason::failed);
}

// Every submitted request ends, however soon the service is destroyed.
TEST_F(ServiceTest, EndsRequestsSubmittedJustBeforeItIsDestroyed) {
  for (unsigned round = 0; round < (trial::kSlowBuild ? 20u : 200u); ++round) {
    std::vector<Stream> streams;
    {
      Service service(scheduler_);
      for (unsigned n = 0; n < 3; ++n) streams.push_back(service.submit(slow()));
    }
    for (Stream& stream : streams) {
      EXPECT_EQ(stream.wait().generation.reason, Reason::cancelled);
    }
  }
  EXPECT_TRUE(scheduler_.idle());
  EXPECT_EQ(pool_.used_pages(), 0);
}

TEST_F(ServiceTest, CancelsARequestWhoseStreamIsDestroyed) {
  Service service(scheduler_);
  {
    const Stream dropped = service.submit(slow());
  }
  Stream stream = service.submit(slow());
  stream = service.submit(request(4, 5));  // in its place
  EXPECT_EQ(read(stream), alone(request(4, 5)));
  while (service.metrics().totals.ended < 3) std::this_thread::yield();
  EXPECT_LT(service.metrics().totals.generated_tokens, 300);
}

}  // namespace
}  // namespace decant::decoding
