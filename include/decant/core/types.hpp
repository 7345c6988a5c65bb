// decant/core/types.hpp - the integer and array types that every folder shares.
//
// Sizes and offsets are signed 64-bit: a cache of 70 billion parameters' keys passes 2^32 bytes
// within one sequence, and a signed difference of positions cannot wrap.
//
// Tested by   tests/core/shape_test.cpp
#pragma once

#include <decant/core/abi.hpp>

#include <cstddef>
#include <cstdint>

namespace decant::inline DECANT_ABI {

using Index = std::int64_t;     // a count, an extent or an offset
using Position = std::int64_t;  // of a token in its own sequence, from 0
using Token = std::int32_t;     // an id in [0, vocabulary)

// Values of one simd::Lanes, outputs of a panel of weights, and tokens of a panel of keys.
inline constexpr Index kLanes = 16;

// Arrays of one and of two dimensions, in registers or on the stack; extents are template
// arguments.
template <class T, Index N>
using Array = T[static_cast<std::size_t>(N)];
template <class T, Index R, Index P>
using Grid = T[static_cast<std::size_t>(R)][static_cast<std::size_t>(P)];

// The positions [begin, end).
struct Range {
  Position begin = 0;
  Position end = 0;

  constexpr Position size() const noexcept { return end > begin ? end - begin : 0; }
  constexpr bool empty() const noexcept { return end <= begin; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

}  // namespace decant::inline DECANT_ABI
