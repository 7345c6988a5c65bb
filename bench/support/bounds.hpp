// bench/support/bounds.hpp - how fast this machine reads memory, and how fast it multiplies and
// adds.
//
// As rivals of a race; the loops are those of `generate --profile`.
//
// Tested by   bench/core/bounds_bench.cpp, before it times them
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/core/types.hpp>

#include "examples/support/bounds.hpp"
#include "support/race.hpp"

#include <map>
#include <vector>

namespace decant::bench {

using examples::burst;
using examples::burst_flops;
using examples::multiply_add;
using examples::read_floats;
using examples::read_memory;

// `threads` workers that live until the program ends.
inline Executor& workers(Index threads) {
  static std::map<Index, ThreadPool> pools;
  if (threads == 1) return serial_executor();
  return pools.try_emplace(threads, threads).first->second;
}

inline Rival peak(Executor& executor) {
  return {"peak", burst_flops(executor.threads()), [&executor] { burst(executor); }};
}

// Plain reads of what `next()` points to, which may be other memory each time: in one stream for
// each worker, and in eight, which is faster on some machines.
template <class Next>
std::vector<Rival> reads(Next next, Index bytes, Executor& executor) {
  const auto amount = static_cast<double>(bytes);
  return {{"read", amount, [=, &executor] { read_memory<1>(next(), bytes, executor); }},
          {"read8", amount, [=, &executor] { read_memory<8>(next(), bytes, executor); }}};
}

}  // namespace decant::bench
