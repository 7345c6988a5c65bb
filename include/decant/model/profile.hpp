// decant/model/profile.hpp - the time of steps by kind of operation.
//
// A workspace with a Profile records for every operation the time of the calling thread, the bytes
// read and written and the flops; beside the machine's bounds that shows what is left to gain.
// Without one a step checks a null pointer some ten times a layer.
//
// Tested by   tests/model/profile_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

namespace decant::inline DECANT_ABI::model {

enum class Operation { embedding, norms, products, rotation, attention, activation, sampling };

inline constexpr std::array kOperations = {
    Operation::embedding, Operation::norms,      Operation::products, Operation::rotation,
    Operation::attention, Operation::activation, Operation::sampling};

constexpr std::string_view name(Operation operation) noexcept {
  constexpr std::array<std::string_view, kOperations.size()> kNames = {
      "embedding", "norms", "products", "rotation", "attention", "activation", "sampling"};
  return kNames[static_cast<std::size_t>(operation)];
}

// Units    bytes from and to memory if processor caches held none; a multiply-add is two flops
struct Work {
  double bytes = 0;
  double flops = 0;
};

// Threads  of one step at a time
class Profile {
 public:
  struct Entry {
    Index calls = 0;
    double seconds = 0;
    Work work;
  };

  const Entry& operator[](Operation operation) const noexcept {
    return entries_[static_cast<std::size_t>(operation)];
  }
  double seconds() const noexcept {
    double all = 0;
    for (const Entry& entry : entries_) all += entry.seconds;
    return all;
  }
  void add(Operation operation, double seconds, const Work& work) noexcept {
    Entry& entry = entries_[static_cast<std::size_t>(operation)];
    entry.calls += 1;
    entry.seconds += seconds;
    entry.work.bytes += work.bytes;
    entry.work.flops += work.flops;
  }
  void clear() noexcept { entries_ = {}; }

 private:
  std::array<Entry, kOperations.size()> entries_{};
};

// Runs `operate`; if there is a profile, adds its time and work().
template <class F, class W>
void profiled(Profile* profile, Operation operation, W&& work, F&& operate) {
  if (profile == nullptr) return operate();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  operate();
  const std::chrono::duration<double> took = Clock::now() - begin;
  profile->add(operation, took.count(), work());
}

// Forwards to another executor and records how long the calling thread had no piece to run: the
// cost of unevenly spread work, of waking and of joining.
//
// Threads  one parallel_for at a time; what it borrows must outlive it
class WaitingExecutor final : public Executor {
 public:
  explicit WaitingExecutor(Executor& executor) noexcept : executor_(&executor) {}

  Index threads() const noexcept override { return executor_->threads(); }
  double seconds() const noexcept { return seconds_; }

  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Clock::duration busy{};
    executor_->parallel_for(items, [&](Index item, Index worker) {
      if (worker != 0) return piece(item, worker);
      const Clock::time_point from = Clock::now();
      piece(item, worker);
      busy += Clock::now() - from;
    });
    seconds_ += std::chrono::duration<double>(Clock::now() - begin - busy).count();
  }

 private:
  Executor* executor_;
  double seconds_ = 0;
};

}  // namespace decant::inline DECANT_ABI::model
