// decant/core/shape.hpp - arithmetic on extents that reports overflow.
//
// Extents come from files and from callers, so their products are checked once, where a buffer
// or a geometry is made; inner loops then multiply freely.
//
// Tested by   tests/core/shape_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <initializer_list>
#include <limits>

namespace decant::inline DECANT_ABI {

// ceil(count / size) for count >= 0 and size > 0, without overflow at the top of the range.
constexpr Index ceil_div(Index count, Index size) noexcept {
  return count / size + (count % size != 0 ? 1 : 0);
}

// a * b of non-negative extents.
//
// Errors   std::invalid_argument on a negative factor or a product beyond 2^63 - 1
constexpr Index checked_product(Index a, Index b) {
  expects(a >= 0 && b >= 0, "decant: negative extent in ", a, " * ", b);
  expects(b == 0 || a <= std::numeric_limits<Index>::max() / b, "decant: the product ", a, " * ", b,
          " does not fit in 63 bits");
  return a * b;
}

constexpr Index checked_product(std::initializer_list<Index> factors) {
  Index product = 1;
  for (Index factor : factors) product = checked_product(product, factor);
  return product;
}

// a + b of non-negative extents.
//
// Errors   std::invalid_argument on a negative term or a sum beyond 2^63 - 1
constexpr Index checked_sum(Index a, Index b) {
  expects(a >= 0 && b >= 0, "decant: negative extent in ", a, " + ", b);
  expects(a <= std::numeric_limits<Index>::max() - b, "decant: the sum ", a, " + ", b,
          " does not fit in 63 bits");
  return a + b;
}

// The smallest multiple of `size` that is not below `count`.
//
// Errors   std::invalid_argument when it does not fit in 63 bits
constexpr Index round_up(Index count, Index size) {
  expects(count >= 0, "decant: the extent ", count, " is negative");
  return checked_product(ceil_div(count, size), size);
}

}  // namespace decant::inline DECANT_ABI
