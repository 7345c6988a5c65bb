// examples/support/bounds.hpp - loops that read memory, and multiply and add, as fast as this
// machine can.
//
// Nothing that reads every byte of its weights can beat a plain read of them, and no f32 product
// can beat a loop of independent multiply-adds in registers. Both are written with the library's
// Lanes, so that the bound and the contender use the same instructions.
//
// Tested by   bench/core/bounds_bench.cpp, before it times them
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <limits>

namespace examples {

using decant::Executor;
using decant::Index;
using decant::kLanes;
using decant::simd::kRegisters;
using decant::simd::Lanes;

// Stops the compiler from removing the computation of `value`.
template <class T>
void used(const T& value) {
#if defined(__GNUC__) || defined(__clang__)
  asm volatile("" : : "m"(value) : "memory");
#endif
}

// The largest of `count` floats, read as `Streams` runs side by side. Floats after the last
// multiple of 128 * Streams are not read.
template <int Streams>
float read_floats(const float* from, Index count) {
  constexpr int kChains = 8;
  constexpr Index kStep = kChains * kLanes;
  const Index run = count / Streams / kStep * kStep;
  Lanes top[kChains];
  for (Lanes& lanes : top) lanes = decant::simd::broadcast(-std::numeric_limits<float>::infinity());
  for (Index at = 0; at < run; at += kStep) {
    DECANT_UNROLL
    for (int stream = 0; stream < Streams; ++stream) {
      DECANT_UNROLL
      for (int i = 0; i < kChains; ++i) {
        top[i] = max(decant::simd::load(from + stream * run + at + i * kLanes), top[i]);
      }
    }
  }
  for (int i = 1; i < kChains; ++i) top[0] = max(top[0], top[i]);
  return reduce_max(top[0]);
}

// Every worker reads its own part.
template <int Streams>
void read_memory(const void* from, Index bytes, Executor& executor) {
  const Index part = bytes / Index{sizeof(float)} / executor.threads();
  executor.parallel_for(executor.threads(), [&](Index item, Index) {
    const float* start = static_cast<const float*>(from) + item * part;
    used(read_floats<Streams>(start, part));
  });
}

// x = x * factor + step in as many independent lanes as the registers hold; lane 0 is returned.
inline constexpr int kChains = kRegisters < 4 ? 12 / kRegisters : 3;

inline float multiply_add(Index rounds, float factor, float step) {
  const Lanes factors = decant::simd::broadcast(factor);
  const Lanes steps = decant::simd::broadcast(step);
  Lanes at[kChains];
  for (Lanes& lanes : at) lanes = decant::simd::broadcast(0.0f);
  for (Index round = 0; round < rounds; ++round) {
    DECANT_UNROLL
    for (int i = 0; i < kChains; ++i) at[i] = madd(at[i], factors, steps);
  }
  for (int i = 0; i < kChains; ++i) used(at[i]);
  return reduce_max(at[0]);
}

inline constexpr Index kBurstRounds = 100'000;

// Floating-point operations of one burst on every worker.
inline double burst_flops(Index threads) {
  return 2.0 * static_cast<double>(threads * kBurstRounds * kChains * kLanes);
}

inline void burst(Executor& executor) {
  executor.parallel_for(executor.threads(),
                        [](Index, Index) { used(multiply_add(kBurstRounds, 0.5f, 1.0f)); });
}

}  // namespace examples
