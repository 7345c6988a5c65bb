// tests/core/executor_test.cpp - every item runs once, no worker runs two at a time, errors are
// thrown.
#include <decant/core/executor.hpp>
#include <decant/core/thread_pool.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace decant;

constexpr int kRepeats = trial::kSlowBuild ? 20 : 200;

// Runs `items` pieces and checks the contract of parallel_for on each.
void expect_contract(Executor& executor, Index items) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(items));
  std::vector<std::atomic<bool>> busy(static_cast<std::size_t>(executor.threads()));
  std::atomic<int> faults = 0;
  executor.parallel_for(items, [&](Index item, Index worker) {
    if (item < 0 || item >= items || worker < 0 || worker >= executor.threads()) {
      faults += 1;
      return;
    }
    if (busy[static_cast<std::size_t>(worker)].exchange(true)) faults += 1;
    calls[static_cast<std::size_t>(item)] += 1;
    busy[static_cast<std::size_t>(worker)] = false;
  });
  EXPECT_EQ(faults, 0);
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(SerialExecutor, RunsEveryItemInOrderAsWorkerZero) {
  std::vector<Index> seen;
  serial_executor().parallel_for(5, [&](Index item, Index worker) {
    EXPECT_EQ(worker, 0);
    seen.push_back(item);
  });
  EXPECT_EQ(seen, (std::vector<Index>{0, 1, 2, 3, 4}));
  EXPECT_EQ(serial_executor().threads(), 1);
  expect_contract(serial_executor(), 0);
}

TEST(SerialExecutor, ThrowsWhatAPieceThrows) {
  EXPECT_THROW(
      serial_executor().parallel_for(3, [](Index, Index) { throw std::runtime_error("a piece"); }),
      std::runtime_error);
}

TEST(ThreadPool, RunsEveryItemOnceOnWorkersOfItsOwn) {
  for (Index threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (Index items : {0, 1, 2, 3, 7, 8, 1000}) expect_contract(pool, items);
  }
}

TEST(ThreadPool, TakesNegativeCountsForNone) {
  ThreadPool pool(2);
  pool.parallel_for(-3, [](Index, Index) { ADD_FAILURE(); });
}

TEST(ThreadPool, SeesWhatTheCallerWroteAndTheOtherWayAround) {
  ThreadPool pool(3);
  std::vector<Index> values(64, 0);
  for (int repeat = 1; repeat <= kRepeats; ++repeat) {
    for (Index& value : values) value += 1;
    pool.parallel_for(64, [&](Index item, Index) { values[static_cast<std::size_t>(item)] *= 2; });
    for (Index& value : values) value -= value / 2;
  }
  for (Index value : values) EXPECT_EQ(value, kRepeats);
}

TEST(ThreadPool, StartsManyRoundsOneAfterTheOther) {
  ThreadPool pool(4);
  std::atomic<Index> sum = 0;
  for (int round = 0; round < 10 * kRepeats; ++round) {
    pool.parallel_for(round % 9, [&](Index item, Index) { sum += item; });
  }
  Index expected = 0;
  for (int round = 0; round < 10 * kRepeats; ++round) {
    for (Index item = 0; item < round % 9; ++item) expected += item;
  }
  EXPECT_EQ(sum, expected);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    expect_contract(pool, 100);
  }
}

TEST(ThreadPool, ThrowsAPiecesExceptionOnceAndGoesOn) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (Index items : {1, 2, 50}) {
      int caught = 0;
      try {
        pool.parallel_for(items, [&](Index item, Index) {
          if (item == items / 2) throw std::runtime_error("piece " + std::to_string(item));
        });
      } catch (const std::runtime_error& error) {
        caught += 1;
        EXPECT_EQ(error.what(), "piece " + std::to_string(items / 2));
      }
      EXPECT_EQ(caught, 1);
      expect_contract(pool, 10);
    }
  }
}

TEST(ThreadPool, ThrowsOneOfManyExceptions) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(100, [](Index, Index) { throw std::out_of_range("every"); }),
               std::out_of_range);
  expect_contract(pool, 100);
}

TEST(ThreadPool, LetsSeveralThreadsTakeTurns) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> inside = 0;
  std::atomic<Index> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        std::atomic<Index> own = 0;
        pool.parallel_for(5, [&](Index item, Index) {
          own += item;
          inside += 1;
        });
        sum += own;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * kRepeats * 10);
  EXPECT_EQ(inside, 4 * kRepeats * 5);
}

TEST(ThreadPool, StopsWhileItsThreadsSpinAndWhileTheySleep) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ThreadPool pool(3);
    if (repeat % 2 == 0) pool.parallel_for(6, [](Index, Index) {});
    if (repeat % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, RefusesNoThreadsAtAll) {
  EXPECT_THROW(ThreadPool(0), std::invalid_argument);
  EXPECT_THROW(ThreadPool(-1), std::invalid_argument);
  EXPECT_THROW(ThreadPool(Index{1} << 40), std::invalid_argument);
}

// std::clock counts the processor time of all threads of this process. Two idle threads that spun
// would take at least one whole processor's 100 ms.
TEST(ThreadPool, TakesNoProcessorTimeWhileIdle) {
  if (trial::kSlowBuild) GTEST_SKIP() << "a slow build: idle threads take time of their own";
  ThreadPool pool(3);
  pool.parallel_for(100, [](Index, Index) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double spent = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 0.01);
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> ref = count;
  EXPECT_EQ(ref(2), 2);
  const FunctionRef<int(int)> copy = ref;
  EXPECT_EQ(copy(3), 5);
}

}  // namespace
