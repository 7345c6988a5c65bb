// tests/law/executors.hpp - an executor that uses every freedom of the contract.
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace decant::trial {

// Runs pieces one after another, but in random order and as random workers: what depends on the
// order of pieces, or on what a worker did before, shows without a race.
class ShuffledExecutor final : public Executor {
 public:
  ShuffledExecutor(Index threads, unsigned seed) : threads_(threads), random_(seed) {}

  Index threads() const noexcept override { return threads_; }
  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    std::vector<Index> order(static_cast<std::size_t>(std::max<Index>(items, 0)));
    std::iota(order.begin(), order.end(), Index{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (Index item : order) {
      piece(item, static_cast<Index>(random_() % static_cast<unsigned long>(threads_)));
    }
    items_.push_back(items);
  }

  // How many pieces each call had, so that a test can tell which code path ran.
  const std::vector<Index>& items() const noexcept { return items_; }

 private:
  Index threads_;
  std::mt19937 random_;
  std::vector<Index> items_;
};

}  // namespace decant::trial
