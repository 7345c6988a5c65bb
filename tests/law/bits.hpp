// tests/law/bits.hpp - random values, and comparisons of rows bit for bit.
#pragma once

#include "reference/model.hpp"

#include <decant/core/types.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace decant::trial {

// Whether this build is tens of times slower than a release, being sanitized or not optimised. Long
// tests run on less data there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
inline constexpr bool kSlowBuild = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSlowBuild = true;
#else
inline constexpr bool kSlowBuild = false;
#endif
#else
inline constexpr bool kSlowBuild = false;
#endif

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr double kRounding = 0x1p-24;  // the largest relative error of one f32 operation

// `size` values in [-scale, scale).
inline std::vector<float> noisy(Index size, std::uint64_t seed, double scale = 1.0) {
  std::vector<float> values(static_cast<std::size_t>(size));
  std::uint64_t place = seed << 32;
  for (float& value : values) {
    value = static_cast<float>(2 * scale * reference::noise(place++));
  }
  return values;
}

inline bool all_finite(std::span<const float> values) {
  for (float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Whether two rows have the same bits and are finite: rows of NaN prove nothing.
inline testing::AssertionResult same_bits(std::span<const float> expected,
                                          std::span<const float> actual) {
  if (expected.size() != actual.size()) {
    return testing::AssertionFailure() << expected.size() << " values, then " << actual.size();
  }
  if (!all_finite(expected)) return testing::AssertionFailure() << "expected is not finite";
  if (std::memcmp(expected.data(), actual.data(), expected.size_bytes()) == 0) {
    return testing::AssertionSuccess();
  }
  std::size_t at = 0;
  while (std::memcmp(&expected[at], &actual[at], sizeof(float)) == 0) at += 1;
  return testing::AssertionFailure()
         << "value " << at << " of " << expected.size() << " is " << actual[at] << ", not "
         << expected[at] << " (difference " << actual[at] - expected[at] << ")";
}

}  // namespace decant::trial
