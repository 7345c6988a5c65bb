// bench/core/bounds_bench.cpp - the machine's read and arithmetic bounds, and the cost of a
// fork-join.
//
//   build/release/bench/bench_core_bounds
//
// plain_read<streams>: GB/s by size and threads. multiply_add: GFLOP/s in registers. fork_join: one
// parallel_for with an item per worker, back to back (workers still spin) and after a pause in
// which they fell asleep; by our pool, and by Eigen's.
#include <decant/core/buffer.hpp>
#include <decant/core/thread_pool.hpp>

#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"

#include <benchmark/benchmark.h>
#include <unsupported/Eigen/CXX11/ThreadPool>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace {

using namespace decant;

Buffer<float> zeros(Index count) {
  Buffer<float> result(count);
  std::fill_n(result.data(), count, 0.0f);
  return result;
}

// A read that skips a part would miss the only value that is not zero.
template <int Streams>
void check_read(Buffer<float>& memory) {
  for (Index place = 1; place < memory.size(); place = place * 5 + 3) {
    memory[place] = 1.0f;
    bench::require(bench::read_floats<Streams>(memory.data(), memory.size()) == 1.0f,
                   "a plain read that does not read everything");
    memory[place] = 0.0f;
  }
}

template <int Streams>
void plain_read(benchmark::State& state) {
  const Index bytes = state.range(0) * 1024;
  Executor& executor = bench::workers(state.range(1));
  Buffer<float>& memory = bench::cached(bytes, [&] {
    Buffer<float> made = zeros(bytes / Index{sizeof(float)});
    check_read<Streams>(made);
    return made;
  });
  for (auto _ : state) bench::read_memory<Streams>(memory.data(), bytes, executor);
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void read_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"KiB", "threads"})->UseRealTime();
  for (Index kib : {32, 512, 16 * 1024, 256 * 1024}) {
    for (Index threads : {1, 2}) list->Args({kib, threads});
  }
}
BENCHMARK(plain_read<1>)->Apply(read_cases);
BENCHMARK(plain_read<4>)->Apply(read_cases);
BENCHMARK(plain_read<8>)->Apply(read_cases);

void multiply_add(benchmark::State& state) {
  float expected = 0;
  for (int round = 0; round < 10; ++round) expected = expected * 0.5f + 1.0f;
  bench::require(bench::multiply_add(10, 0.5f, 1.0f) == expected, "multiply-adds that do not add");
  Executor& executor = bench::workers(state.range(0));
  for (auto _ : state) bench::burst(executor);
  state.counters["GFLOP/s"] = benchmark::Counter(bench::burst_flops(state.range(0)) * 1e-9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(multiply_add)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

// Eigen's pool, one task a worker and a barrier.
class EigenExecutor final : public Executor {
 public:
  explicit EigenExecutor(Index threads)
      : threads_(threads), pool_(static_cast<int>(std::max<Index>(1, threads - 1))) {}

  Index threads() const noexcept override { return threads_; }
  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    Eigen::Barrier barrier(static_cast<unsigned>(items - 1));
    for (Index item = 1; item < items; ++item) {
      pool_.Schedule([&, item] {
        piece(item, item);
        barrier.Notify();
      });
    }
    piece(0, 0);
    barrier.Wait();
  }

 private:
  Index threads_;
  Eigen::ThreadPool pool_;
};

// Runs one item per worker and counts them.
void fork_join(benchmark::State& state, Executor& executor, std::chrono::milliseconds pause) {
  std::atomic<Index> done = 0;
  const auto fork = [&] {
    executor.parallel_for(executor.threads(),
                          [&](Index, Index) { done.fetch_add(1, std::memory_order_relaxed); });
  };
  fork();
  bench::require(done == executor.threads(), "a fork-join that lost an item");
  for (auto _ : state) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto start = std::chrono::steady_clock::now();
    fork();
    const std::chrono::duration<double> lap = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(lap.count());
  }
}
void ours(benchmark::State& state) {
  fork_join(state, bench::workers(state.range(0)), std::chrono::milliseconds(state.range(1)));
}
void eigens(benchmark::State& state) {
  EigenExecutor executor(state.range(0));
  fork_join(state, executor, std::chrono::milliseconds(state.range(1)));
}
void fork_join_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"threads", "pause_ms"})->Unit(benchmark::kMicrosecond)->UseManualTime();
  list->Args({2, 0})->Args({2, 2})->Iterations(500);
}
BENCHMARK(ours)->Name("fork_join/decant")->Apply(fork_join_cases);
BENCHMARK(eigens)->Name("fork_join/Eigen")->Apply(fork_join_cases);

}  // namespace
