// decant/codec/scale.hpp - the scale of elements that are quantised together: it takes the largest
// of them to the largest value of a format.
//
// Tested by   tests/codec/{scaled,block}_test.cpp, tests/kernels/row_tiles_test.cpp
#pragma once

#include <decant/core/abi.hpp>

#include <cmath>
#include <limits>
#include <span>

namespace decant::inline DECANT_ABI::codec {

// The element of largest size, with its sign, and the first of equal ones; NaN if an element is not
// finite.
inline float largest_of(std::span<const float> elements) noexcept {
  float largest = 0.0f;
  bool finite = true;
  for (float element : elements) {
    if (std::abs(element) > std::abs(largest)) largest = element;
    finite = finite && std::isfinite(element);
  }
  return finite ? largest : std::numeric_limits<float>::quiet_NaN();
}

// What quantised values up to `most` are multiplied by: zero if `size`, the size of the largest
// element, is too small to divide by, and NaN if it is NaN.
inline float scale_for(float size, float most) noexcept {
  const float scale = size / most;
  return scale < std::numeric_limits<float>::min() ? 0.0f : scale;  // 1 / scale must be finite
}

}  // namespace decant::inline DECANT_ABI::codec
