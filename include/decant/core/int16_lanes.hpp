// decant/core/int16_lanes.hpp - sixteen 32-bit sums of products of pairs of 16-bit whole numbers.
//
// Keys in whole numbers meet queries in whole numbers here: two signed halves of each lane times
// two that all lanes share. Whole numbers add exactly, so every machine has the same sums, whether
// it has an instruction for this or not.
//
// Depends on  core/int8_lanes.hpp
// Source      Intel's description of vpdpwssd
// Tested by   tests/core/word_lanes_test.cpp, against dot_pair_plain
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/int8_lanes.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <cstdint>

namespace decant::inline v0 {

// Number 0 in the low half of a word, number 1 in the high half.
constexpr std::int32_t pair_of(std::int32_t first, std::int32_t second) noexcept {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xFFFF) |
                                   static_cast<std::uint32_t>(second) << 16);
}

// What dot_pairs() computes, in plain words; a sum beyond 32 bits wraps, as the machines' do.
constexpr std::int32_t dot_pair_plain(std::int32_t sum, std::int32_t a, std::int32_t b) noexcept {
  const auto low = [](std::int32_t pair) { return std::int32_t{static_cast<std::int16_t>(pair)}; };
  const auto product = [](std::int32_t x, std::int32_t y) {
    return static_cast<std::uint32_t>(x * y);
  };
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + product(low(a), low(b)) +
                                   product(a >> 16, b >> 16));
}

#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)

DECANT_ALWAYS_INLINE IntLanes dot_pairs(const IntLanes& sums, const IntLanes& pairs,
                                        std::int32_t pair) {
  const __m512i both = _mm512_set1_epi32(pair);
#if defined(__AVX512VNNI__) && defined(__GNUC__) && !defined(__clang__)
  __m512i all = sums.all;  // GCC 12 copies the sums of a loop twice a turn around the intrinsic
  asm("vpdpwssd %2, %1, %0" : "+v"(all) : "v"(pairs.all), "v"(both));
  return {all};
#elif defined(__AVX512VNNI__)
  return {_mm512_dpwssd_epi32(sums.all, pairs.all, both)};
#else
  return {_mm512_add_epi32(sums.all, _mm512_madd_epi16(pairs.all, both))};
#endif
}
DECANT_ALWAYS_INLINE IntLanes pairs_of_bytes(const std::int8_t* from) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm512_permutexvar_epi16(order, _mm512_cvtepi8_epi16(bytes))};
}
DECANT_ALWAYS_INLINE IntLanes pairs_of_nibbles(const std::uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m512i words = _mm512_cvtepu8_epi32(bytes);
  const __m512i apart =
      _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi32(words, 12)), _mm512_set1_epi16(15));
  return {_mm512_sub_epi16(apart, _mm512_set1_epi16(8))};
}

#elif defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)

DECANT_ALWAYS_INLINE IntLanes dot_pairs(const IntLanes& sums, const IntLanes& pairs,
                                        std::int32_t pair) {
  const __m256i both = _mm256_set1_epi32(pair);
  return {{_mm256_add_epi32(sums.half[0], _mm256_madd_epi16(pairs.half[0], both)),
           _mm256_add_epi32(sums.half[1], _mm256_madd_epi16(pairs.half[1], both))}};
}
DECANT_ALWAYS_INLINE IntLanes pairs_of_bytes(const std::int8_t* from) {
  const auto* run = reinterpret_cast<const __m128i*>(from);
  const __m128i first = _mm_loadu_si128(run);
  const __m128i second = _mm_loadu_si128(run + 1);
  return {{_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second)),
           _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, second))}};
}
DECANT_ALWAYS_INLINE IntLanes pairs_of_nibbles(const std::uint8_t* from) {
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

// sums + both products of pairs; all lanes share `pair`.
inline IntLanes dot_pairs(const IntLanes& sums, const IntLanes& pairs, std::int32_t pair) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = dot_pair_plain(sums.lane[n], pairs.lane[n], pair);
  }
  return result;
}

// Number n of either run in lane n.
//
// Shape    from [2][16]
inline IntLanes pairs_of_bytes(const std::int8_t* from) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) result.lane[n] = pair_of(from[n], from[16 + n]);
  return result;
}

// Both halves of byte n in lane n, the low one first, each less 8.
//
// Shape    from [16]
inline IntLanes pairs_of_nibbles(const std::uint8_t* from) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = pair_of((from[n] & 15) - 8, (from[n] >> 4) - 8);
  }
  return result;
}

#endif

}  // namespace decant::inline v0
