// Compiled with the library's optimisation, whatever that of the example.
#include "support/profile.hpp"

#include <decant/core/buffer.hpp>
#include <decant/core/types.hpp>

#include "support/bounds.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

namespace examples {

namespace {

constexpr Index kFloats = Index{64} << 20;  // 256 MiB, more than the processor's caches
constexpr Index kParts = 8;                 // a turn reads one of them

// Times of turns: the least, and by all of them the processor time that the threads got.
class Turns {
 public:
  template <class F>
  void time(F&& run) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t processor = std::clock();
    run();
    processor_ += static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    wall_ += wall.count();
    least_ = std::min(least_, wall.count());
  }
  double least() const { return least_; }
  double wall() const { return wall_; }
  double processor() const { return processor_; }

 private:
  double least_ = std::numeric_limits<double>::infinity(), wall_ = 0, processor_ = 0;
};

}  // namespace

// Plain reads in eight streams a thread, and f32 multiply-adds in registers.
Bounds measure_bounds(decant::Executor& executor) {
  decant::Buffer<float> memory(kFloats);
  std::fill_n(memory.data(), memory.size(), 1.0f);
  const Index part = kFloats / kParts, bytes = part * Index{sizeof(float)};
  Turns reads, bursts;
  for (int turn = 0; turn < kMeasuredTurns; ++turn) {
    const float* from = memory.data() + turn % kParts * part;
    reads.time([&] { read_memory<8>(from, bytes, executor); });
    bursts.time([&] { burst(executor); });
  }
  const double time = (reads.wall() + bursts.wall()) * static_cast<double>(executor.threads());
  return {.bytes = static_cast<double>(bytes) / reads.least(),
          .flops = burst_flops(executor.threads()) / bursts.least(),
          .share = std::min(1.0, (reads.processor() + bursts.processor()) / time)};
}

}  // namespace examples
