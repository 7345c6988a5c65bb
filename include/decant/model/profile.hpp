// decant/model/profile.hpp - where the time of steps goes, by kind of operation.
//
// A workspace that is given a Profile notes for every operation how long the calling thread was in
// it, what it read and wrote, and how much it computed; set against the machine's bounds that says
// what is left to gain. Without one a step looks at a null pointer some ten times a layer.
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

namespace decant::inline v0::model {

enum class Operation { embedding, norms, products, rotation, attention, activation, sampling };

inline constexpr std::array kOperations = {
    Operation::embedding, Operation::norms,      Operation::products, Operation::rotation,
    Operation::attention, Operation::activation, Operation::sampling};

constexpr std::string_view name(Operation operation) noexcept {
  constexpr std::array<std::string_view, kOperations.size()> kNames = {
      "embedding", "norms", "products", "rotation", "attention", "activation", "sampling"};
  return kNames[static_cast<std::size_t>(operation)];
}

// Units    bytes from and to memory if no cache held any; flops count a multiply-add as two
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

// Runs `operate`; where there is a profile, its time and work() are added to it.
template <class F, class W>
void profiled(Profile* profile, Operation operation, W&& work, F&& operate) {
  if (profile == nullptr) return operate();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  operate();
  const std::chrono::duration<double> took = Clock::now() - begin;
  profile->add(operation, took.count(), work());
}

// Passes everything on to another executor and notes how long the calling thread had no piece to
// run: what work that is spread unevenly, and waking and joining, cost.
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

}  // namespace decant::inline v0::model
