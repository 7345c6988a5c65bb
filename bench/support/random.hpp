// bench/support/random.hpp - numbers that every format holds exactly, by their place in a list.
//
// An oracle can make any of them again, so nothing that is large has to be kept for it, and no
// rounding to a narrow format stands between it and the kernel.
//
// Depends on  core/types.hpp, tests/reference/model.hpp
#pragma once

#include <decant/core/types.hpp>

#include "reference/model.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::bench {

// Number k: a multiple of 2^-7 in [-1, 1).
inline float number(Index k) {
  return static_cast<float>(std::floor(reference::noise(static_cast<std::uint64_t>(k)) * 256) *
                            0x1p-7);
}

inline void fill(std::span<float> out, Index first) {
  for (float& cell : out) cell = number(first++);
}

// Numbers [first, first + count).
inline std::vector<float> numbers(Index count, Index first) {
  std::vector<float> result(static_cast<std::size_t>(count));
  fill(result, first);
  return result;
}

}  // namespace decant::bench
