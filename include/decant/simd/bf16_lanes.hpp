// decant/simd/bf16_lanes.hpp - sixteen f32 sums of products of bf16 values.
//
// Some machines multiply two bf16 values of each lane with two others and add both products to an
// f32 sum in one instruction, twice as many multiply-adds as f32 has. The reference beside it does
// the same with two fused multiply-adds. The instruction flushes values below 2^-126 to zero and
// rounds as its maker chose, so results may differ between machines in their last bits.
//
// Source      Intel's description of vdpbf16ps
// Tested by   tests/simd/bf16_lanes_test.cpp, against dot_bf16_reference
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <Eigen/Core>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace decant::inline DECANT_ABI::simd {

// Whether one instruction multiplies two bf16 values a lane, and so faster than f32.
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
inline constexpr bool kHasBf16Dot = true;
#else
inline constexpr bool kHasBf16Dot = false;
#endif

// sums + both products. Words hold value 0 of their lane in the low half and value 1 in the high
// half, as load_words() gives them; all lanes share the two values of `two`.
DECANT_ALWAYS_INLINE Lanes dot_bf16_reference(const Lanes& words, std::uint32_t two,
                                              const Lanes& sums) {
  const Lanes low = broadcast(std::bit_cast<float>(two << 16));
  const Lanes high = broadcast(std::bit_cast<float>(two & 0xFFFF0000u));
  return madd(high_halves(words), high, madd(low_halves(words), low, sums));
}
DECANT_ALWAYS_INLINE Lanes dot_bf16(const Lanes& words, std::uint32_t two, const Lanes& sums) {
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
  const __m512i both = _mm512_set1_epi32(static_cast<std::int32_t>(two));
  return {{_mm512_dpbf16_ps(sums.part[0], std::bit_cast<__m512bh>(words.part[0]),
                            std::bit_cast<__m512bh>(both))}};
#else
  return dot_bf16_reference(words, two, sums);
#endif
}

// Sixteen values as bf16, rounded to nearest, ties to even: two a word.
DECANT_ALWAYS_INLINE void store_bf16(std::uint32_t* to, const Lanes& values) {
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BF16__)
  const auto narrow = _mm512_cvtneps_pbh(values.part[0]);
  std::memcpy(to, &narrow, sizeof narrow);
#else
  alignas(64) float wide[kLanes];
  store(wide, values);
  for (int n = 0; n < kLanes; n += 2) {
    const std::uint32_t low = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(wide[n]));
    const std::uint32_t high = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(wide[n + 1]));
    to[n / 2] = low | high << 16;
  }
#endif
}

}  // namespace decant::inline DECANT_ABI::simd
