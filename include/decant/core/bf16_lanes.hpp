// decant/core/bf16_lanes.hpp - sixteen f32 sums of products of pairs of bf16 numbers.
//
// Some machines multiply two pairs of bf16 numbers a lane and add both products to an f32 sum at
// once, twice as many multiply-adds an instruction as f32 has. The reference beside it does the
// same with two fused multiply-adds; the instruction takes numbers below 2^-126 for zero, and
// rounds where its maker chose to, so results may differ from machine to machine in their last
// bits.
//
// Depends on  core/simd.hpp
// Source      Intel's description of vdpbf16ps
// Tested by   tests/core/pair_lanes_test.cpp, against madd_pairs_plain
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <Eigen/Core>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace decant::inline v0 {

// Whether pairs are multiplied by one instruction, and so faster than numbers.
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
inline constexpr bool kMultipliesPairs = true;
#else
inline constexpr bool kMultipliesPairs = false;
#endif

// sums + both products of pairs. Words hold number 0 of their lane in the low half and number 1 in
// the high half, as load_words() gives them; all lanes share `pair`.
DECANT_ALWAYS_INLINE Lanes madd_pairs_plain(const Lanes& words, std::uint32_t pair,
                                            const Lanes& sums) {
  const Lanes low = broadcast(std::bit_cast<float>(pair << 16));
  const Lanes high = broadcast(std::bit_cast<float>(pair & 0xFFFF0000u));
  return madd(high_halves(words), high, madd(low_halves(words), low, sums));
}
DECANT_ALWAYS_INLINE Lanes madd_pairs(const Lanes& words, std::uint32_t pair, const Lanes& sums) {
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
  const __m512i both = _mm512_set1_epi32(static_cast<std::int32_t>(pair));
  return {{_mm512_dpbf16_ps(sums.part[0], std::bit_cast<__m512bh>(words.part[0]),
                            std::bit_cast<__m512bh>(both))}};
#else
  return madd_pairs_plain(words, pair, sums);
#endif
}

// Sixteen numbers as bf16, rounded to nearest, ties to even: eight pairs.
DECANT_ALWAYS_INLINE void store_pairs(std::uint32_t* to, const Lanes& numbers) {
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
  const auto narrow = _mm512_cvtneps_pbh(numbers.part[0]);
  std::memcpy(to, &narrow, sizeof narrow);
#else
  alignas(64) float wide[kLanes];
  store(wide, numbers);
  for (int n = 0; n < kLanes; n += 2) {
    const std::uint32_t low = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(wide[n]));
    const std::uint32_t high = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(wide[n + 1]));
    to[n / 2] = low | high << 16;
  }
#endif
}

}  // namespace decant::inline v0
