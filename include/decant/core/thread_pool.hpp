// decant/core/thread_pool.hpp - threads that run the pieces of a step.
//
// A step of a small model lasts a millisecond and holds a hundred fork-joins, so workers spin for
// a moment before they sleep, and items are taken from one atomic counter. A round is over when its
// items are done, not when every worker has noticed it, so a busy machine does not hold it up. An
// idle pool takes no processor time: after a tenth of a millisecond without work its threads sleep.
//
// Tested by   tests/core/executor_test.cpp, also under the thread sanitizer
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI {

// `threads` workers, the calling thread counted, so `threads - 1` are started.
//
// Errors   std::invalid_argument (threads < 1), std::system_error when the system has no more
// Cost     parallel_for allocates nothing
// Threads  parallel_for may be called from several threads: the calls take turns
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(Index threads) {
    expects(threads >= 1 && threads <= 4096, "ThreadPool: ", threads, " threads");
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    try {
      for (Index worker = 1; worker < threads; ++worker) {
        workers_.emplace_back([this, worker] { serve(worker); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() override { stop(); }

  Index threads() const noexcept override { return std::ssize(workers_) + 1; }

  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    if (items <= 0) return;
    const std::scoped_lock turn(turn_);
    if (workers_.empty() || items == 1) {
      for (Index item = 0; item < items; ++item) piece(item, 0);
      return;
    }
    piece_ = &piece;
    items_ = items;
    done_.store(0, std::memory_order_relaxed);
    left_.store(static_cast<std::uint64_t>(items), std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    work(0);
    wait_until(done_, [items](Index done) { return done == items; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void serve(Index worker) {
    for (std::uint32_t seen = 0; !stopping_.load(std::memory_order_acquire);) {
      wait_until(round_, [seen](std::uint32_t round) { return round != seen; });
      seen = round_.load(std::memory_order_acquire);
      work(worker);
    }
  }

  // Takes items while there are any. A round is not over while one of its items runs, so piece_ is
  // that round's.
  void work(Index worker) {
    for (std::uint64_t left = left_.load(std::memory_order_acquire); left > 0;) {
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        continue;
      }
      run(static_cast<Index>(left - 1), worker);
      left = left_.load(std::memory_order_acquire);
    }
  }

  void run(Index item, Index worker) {
    try {
      (*piece_)(item, worker);
    } catch (...) {
      const std::scoped_lock lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    const Index items = items_;  // may change as soon as the last item is counted
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == items) done_.notify_one();
  }

  // Spins for about a tenth of a millisecond, then sleeps until `value` changes to what is wanted.
  template <class T, class Condition>
  static void wait_until(const std::atomic<T>& value, Condition condition) {
    constexpr auto kSpin = std::chrono::microseconds(100);
    const auto start = std::chrono::steady_clock::now();
    for (int turns = 0;; ++turns) {
      if (condition(value.load(std::memory_order_acquire))) return;
      pause();
      if (turns % 64 == 63 && std::chrono::steady_clock::now() - start > kSpin) break;
    }
    for (T now = value.load(std::memory_order_acquire); !condition(now);
         now = value.load(std::memory_order_acquire)) {
      value.wait(now, std::memory_order_acquire);
    }
  }

  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::mutex turn_, error_mutex_;
  std::exception_ptr error_;
  const FunctionRef<void(Index, Index)>* piece_ = nullptr;
  Index items_ = 0;
  std::vector<std::thread> workers_;
  alignas(64) std::atomic<std::uint32_t> round_{0};
  alignas(64) std::atomic<std::uint64_t> left_{0};  // items of the round that nobody took yet
  alignas(64) std::atomic<Index> done_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace decant::inline DECANT_ABI
