// The bounds are measured by code that is optimised as the library's is, whatever the example.
#include "support/profile.hpp"

#include <decant/core/buffer.hpp>
#include <decant/core/types.hpp>

#include "support/bounds.hpp"

#include <algorithm>
#include <chrono>

namespace examples {

namespace {

// The least seconds of a few runs.
template <class F>
double least_seconds(F&& run) {
  double least = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

// A plain read of 256 MiB in eight streams a thread.
double read_bound(decant::Executor& executor) {
  decant::Buffer<float> memory(Index{64} << 20);
  std::fill_n(memory.data(), memory.size(), 1.0f);
  const double seconds =
      least_seconds([&] { read_memory<8>(memory.data(), memory.bytes(), executor); });
  return static_cast<double>(memory.bytes()) / seconds;
}

// f32 multiply-adds in registers.
double multiply_bound(decant::Executor& executor) {
  return burst_flops(executor.threads()) / least_seconds([&] { burst(executor); });
}

}  // namespace

Bounds measure_bounds(decant::Executor& executor) {
  return {.bytes = read_bound(executor), .flops = multiply_bound(executor)};
}

}  // namespace examples
