// decant/simd/int16_lanes.hpp - sixteen 32-bit sums of products of int16 values.
//
// Integer keys meet queries quantised to int16 here: two signed halves of each lane times two that
// all lanes share. Integers add exactly, so every machine has the same sums, whether it has an
// instruction for this or not.
//
// Source      Intel's description of vpdpwssd
// Tested by   tests/simd/int16_lanes_test.cpp, against dot_int16_reference
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int8_lanes.hpp>

#include <cstddef>
#include <cstdint>

namespace decant::inline DECANT_ABI::simd {

// The first in the low half of a word, the second in the high half.
constexpr std::int32_t pack_int16(std::int32_t first, std::int32_t second) noexcept {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xFFFF) |
                                   static_cast<std::uint32_t>(second) << 16);
}

// What dot_int16() computes for one lane; a sum beyond 32 bits wraps, as the machines' do.
constexpr std::int32_t dot_int16_reference(std::int32_t sum, std::int32_t a,
                                           std::int32_t b) noexcept {
  const auto low = [](std::int32_t two) { return std::int32_t{static_cast<std::int16_t>(two)}; };
  const auto product = [](std::int32_t x, std::int32_t y) {
    return static_cast<std::uint32_t>(x * y);
  };
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + product(low(a), low(b)) +
                                   product(a >> 16, b >> 16));
}

#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)

DECANT_ALWAYS_INLINE IntLanes dot_int16(const IntLanes& sums, const IntLanes& halves,
                                        std::int32_t two) {
  const __m512i both = _mm512_set1_epi32(two);
#if defined(__AVX512VNNI__) && defined(__GNUC__) && !defined(__clang__)
  __m512i all = sums.all;  // GCC 12 copies the sums of a loop twice a turn around the intrinsic
  asm("vpdpwssd %2, %1, %0" : "+v"(all) : "v"(halves.all), "v"(both));
  return {all};
#elif defined(__AVX512VNNI__)
  return {_mm512_dpwssd_epi32(sums.all, halves.all, both)};
#else
  return {_mm512_add_epi32(sums.all, _mm512_madd_epi16(halves.all, both))};
#endif
}
DECANT_ALWAYS_INLINE IntLanes int16_of_bytes(const std::int8_t* from) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm512_permutexvar_epi16(order, _mm512_cvtepi8_epi16(bytes))};
}
DECANT_ALWAYS_INLINE IntLanes int16_of_nibbles(const std::uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m512i words = _mm512_cvtepu8_epi32(bytes);
  const __m512i apart =
      _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi32(words, 12)), _mm512_set1_epi16(15));
  return {_mm512_sub_epi16(apart, _mm512_set1_epi16(8))};
}

#elif defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)

DECANT_ALWAYS_INLINE IntLanes dot_int16(const IntLanes& sums, const IntLanes& halves,
                                        std::int32_t two) {
  const __m256i both = _mm256_set1_epi32(two);
  return {{_mm256_add_epi32(sums.half[0], _mm256_madd_epi16(halves.half[0], both)),
           _mm256_add_epi32(sums.half[1], _mm256_madd_epi16(halves.half[1], both))}};
}
DECANT_ALWAYS_INLINE IntLanes int16_of_bytes(const std::int8_t* from) {
  const auto* run = reinterpret_cast<const __m128i*>(from);
  const __m128i first = _mm_loadu_si128(run);
  const __m128i second = _mm_loadu_si128(run + 1);
  return {{_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second)),
           _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, second))}};
}
DECANT_ALWAYS_INLINE IntLanes int16_of_nibbles(const std::uint8_t* from) {
  const auto eight = [](const std::uint8_t* at) {
    const __m256i words =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    const __m256i apart = _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi32(words, 12)),
                                           _mm256_set1_epi16(15));
    return _mm256_sub_epi16(apart, _mm256_set1_epi16(8));
  };
  return {{eight(from), eight(from + 8)}};
}

#else

// sums + both products; all lanes share the two values of `two`.
inline IntLanes dot_int16(const IntLanes& sums, const IntLanes& halves, std::int32_t two) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = dot_int16_reference(sums.lane[n], halves.lane[n], two);
  }
  return result;
}

// Element n of either run in lane n.
//
// Shape    from [2][16]
inline IntLanes int16_of_bytes(const std::int8_t* from) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) result.lane[n] = pack_int16(from[n], from[16 + n]);
  return result;
}

// Both halves of byte n in lane n, the low one first, each less 8.
//
// Shape    from [16]
inline IntLanes int16_of_nibbles(const std::uint8_t* from) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = pack_int16((from[n] & 15) - 8, (from[n] >> 4) - 8);
  }
  return result;
}

#endif

}  // namespace decant::inline DECANT_ABI::simd
