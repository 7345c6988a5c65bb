// bench/support/random.hpp - values that every format holds exactly, by their index.
//
// A reference can make any of them again, so it needs no large copy, and no rounding to a narrow
// format makes it differ from the kernel.
#pragma once

#include <decant/core/types.hpp>

#include "reference/model.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::bench {

// Value k: a multiple of 2^-7 in [-1, 1).
inline float value(Index k) {
  return static_cast<float>(std::floor(reference::noise(static_cast<std::uint64_t>(k)) * 256) *
                            0x1p-7);
}

inline void fill(std::span<float> out, Index first) {
  for (float& cell : out) cell = value(first++);
}

// Values [first, first + count).
inline std::vector<float> values(Index count, Index first) {
  std::vector<float> result(static_cast<std::size_t>(count));
  fill(result, first);
  return result;
}

}  // namespace decant::bench
