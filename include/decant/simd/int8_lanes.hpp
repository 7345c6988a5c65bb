// decant/simd/int8_lanes.hpp - sixteen 32-bit sums of products of bytes.
//
// Quantised weights meet quantised activations here: four unsigned bytes of each lane times four
// signed bytes that all lanes share. Integers add exactly, so every machine has the same sums,
// whether it has an instruction for this or not.
//
// Tested by   tests/simd/int8_lanes_test.cpp, against dot_int8_reference
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(EIGEN_VECTORIZE_AVX2)
#include <immintrin.h>
#endif

namespace decant::inline DECANT_ABI::simd {

// 64 bytes: lane n has bytes [4 n, 4 n + 4). And 16 integers, one a lane.
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)
struct ByteLanes {
  __m512i all;
};
struct IntLanes {
  __m512i all;
};
#elif defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)
struct ByteLanes {
  __m256i half[2];
};
struct IntLanes {
  __m256i half[2];
};
#else
struct ByteLanes {
  std::array<std::uint32_t, 16> word;
};
struct IntLanes {
  std::array<std::int32_t, 16> lane;
};
#endif

// What dot_int8() computes for one lane.
inline std::int32_t dot_int8_reference(std::int32_t sum, std::uint32_t bytes,
                                       std::int32_t four) noexcept {
  for (int i = 0; i < 32; i += 8) {
    const auto weight = static_cast<std::int32_t>(bytes >> i & 0xFF);
    const auto number = static_cast<std::int8_t>(static_cast<std::uint32_t>(four) >> i & 0xFF);
    sum += weight * number;
  }
  return sum;
}

namespace detail {

// Signed bytes `first` and `first` + 2 of `four`, as 16-bit halves of a word.
inline std::int32_t halves(std::int32_t four, int first) noexcept {
  const auto byte = [&](int i) {
    const auto bits = static_cast<std::uint32_t>(four) >> (8 * i) & 0xFF;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int8_t>(bits)));
  };
  return static_cast<std::int32_t>((byte(first) & 0xFFFF) | byte(first + 2) << 16);
}

}  // namespace detail

#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)

DECANT_ALWAYS_INLINE ByteLanes load_bytes(const std::uint8_t* from) {
  return {_mm512_loadu_si512(from)};
}
DECANT_ALWAYS_INLINE IntLanes broadcast_int(std::int32_t value) {
  return {_mm512_set1_epi32(value)};
}
DECANT_ALWAYS_INLINE IntLanes dot_int8(const IntLanes& sums, const ByteLanes& bytes,
                                       std::int32_t four) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpbusd_epi32(sums.all, bytes.all, _mm512_set1_epi32(four))};
#else
  const __m512i even = _mm512_and_si512(bytes.all, _mm512_set1_epi16(0xFF));
  const __m512i odd = _mm512_srli_epi16(bytes.all, 8);
  const __m512i first = _mm512_madd_epi16(even, _mm512_set1_epi32(detail::halves(four, 0)));
  const __m512i second = _mm512_madd_epi16(odd, _mm512_set1_epi32(detail::halves(four, 1)));
  return {_mm512_add_epi32(sums.all, _mm512_add_epi32(first, second))};
#endif
}
DECANT_ALWAYS_INLINE ByteLanes low_nibbles(const ByteLanes& bytes) {
  return {_mm512_and_si512(bytes.all, _mm512_set1_epi8(0x0F))};
}
DECANT_ALWAYS_INLINE ByteLanes high_nibbles(const ByteLanes& bytes) {
  return {_mm512_and_si512(_mm512_srli_epi16(bytes.all, 4), _mm512_set1_epi8(0x0F))};
}
template <int I>
DECANT_ALWAYS_INLINE IntLanes byte_of(const ByteLanes& bytes) {
  return {_mm512_and_si512(_mm512_srli_epi32(bytes.all, 8 * I), _mm512_set1_epi32(0xFF))};
}
DECANT_ALWAYS_INLINE Lanes to_lanes(const IntLanes& integers) {
  return {{_mm512_cvtepi32_ps(integers.all)}};
}

#elif defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)

DECANT_ALWAYS_INLINE ByteLanes load_bytes(const std::uint8_t* from) {
  const auto* half = reinterpret_cast<const __m256i*>(from);
  return {{_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)}};
}
DECANT_ALWAYS_INLINE IntLanes broadcast_int(std::int32_t value) {
  return {{_mm256_set1_epi32(value), _mm256_set1_epi32(value)}};
}
DECANT_ALWAYS_INLINE IntLanes dot_int8(const IntLanes& sums, const ByteLanes& bytes,
                                       std::int32_t four) {
  const __m256i evens = _mm256_set1_epi32(detail::halves(four, 0));
  const __m256i odds = _mm256_set1_epi32(detail::halves(four, 1));
  IntLanes result;
  for (int i = 0; i < 2; ++i) {
    const __m256i even = _mm256_and_si256(bytes.half[i], _mm256_set1_epi16(0xFF));
    const __m256i odd = _mm256_srli_epi16(bytes.half[i], 8);
    const __m256i both =
        _mm256_add_epi32(_mm256_madd_epi16(even, evens), _mm256_madd_epi16(odd, odds));
    result.half[i] = _mm256_add_epi32(sums.half[i], both);
  }
  return result;
}
DECANT_ALWAYS_INLINE ByteLanes low_nibbles(const ByteLanes& bytes) {
  const __m256i mask = _mm256_set1_epi8(0x0F);
  return {{_mm256_and_si256(bytes.half[0], mask), _mm256_and_si256(bytes.half[1], mask)}};
}
DECANT_ALWAYS_INLINE ByteLanes high_nibbles(const ByteLanes& bytes) {
  return low_nibbles({{_mm256_srli_epi16(bytes.half[0], 4), _mm256_srli_epi16(bytes.half[1], 4)}});
}
template <int I>
DECANT_ALWAYS_INLINE IntLanes byte_of(const ByteLanes& bytes) {
  const __m256i mask = _mm256_set1_epi32(0xFF);
  return {{_mm256_and_si256(_mm256_srli_epi32(bytes.half[0], 8 * I), mask),
           _mm256_and_si256(_mm256_srli_epi32(bytes.half[1], 8 * I), mask)}};
}
DECANT_ALWAYS_INLINE Lanes to_lanes(const IntLanes& integers) {
  return {{_mm256_cvtepi32_ps(integers.half[0]), _mm256_cvtepi32_ps(integers.half[1])}};
}

#else

inline ByteLanes load_bytes(const std::uint8_t* from) {
  ByteLanes bytes;
  for (std::size_t n = 0; n < 16; ++n) {
    const std::uint8_t* at = from + 4 * n;
    bytes.word[n] = at[0] | static_cast<std::uint32_t>(at[1]) << 8 |
                    static_cast<std::uint32_t>(at[2]) << 16 |
                    static_cast<std::uint32_t>(at[3]) << 24;
  }
  return bytes;
}
inline IntLanes broadcast_int(std::int32_t value) {
  IntLanes result;
  result.lane.fill(value);
  return result;
}
inline IntLanes dot_int8(const IntLanes& sums, const ByteLanes& bytes, std::int32_t four) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = dot_int8_reference(sums.lane[n], bytes.word[n], four);
  }
  return result;
}
inline ByteLanes low_nibbles(ByteLanes bytes) {
  for (std::uint32_t& word : bytes.word) word &= 0x0F0F0F0F;
  return bytes;
}
inline ByteLanes high_nibbles(ByteLanes bytes) {
  for (std::uint32_t& word : bytes.word) word = word >> 4 & 0x0F0F0F0F;
  return bytes;
}
template <int I>
IntLanes byte_of(const ByteLanes& bytes) {
  IntLanes result;
  for (std::size_t n = 0; n < 16; ++n) {
    result.lane[n] = static_cast<std::int32_t>(bytes.word[n] >> (8 * I) & 0xFF);
  }
  return result;
}
inline Lanes to_lanes(const IntLanes& integers) {
  alignas(64) float lanes[16];
  for (std::size_t n = 0; n < 16; ++n) lanes[n] = static_cast<float>(integers.lane[n]);
  return load(lanes);
}

#endif

// The integers nearest to a * b, ties to even, where those are of a size below 2^22.
DECANT_ALWAYS_INLINE Lanes round_product(const Lanes& a, const Lanes& b) {
  const Lanes shift = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds
  return madd(a, b, shift) - shift;
}

// The low bytes of sixteen integers given as floats.
inline void store_bytes(std::int8_t* to, const Lanes& integers) {
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(integers.part[0]));
  std::memcpy(to, &bytes, 16);
#else
  alignas(64) float lanes[16];
  store(lanes, integers + broadcast(12582912.0f));
  for (int n = 0; n < 16; ++n) {
    to[n] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(lanes[n]) & 0xFF);
  }
#endif
}

}  // namespace decant::inline DECANT_ABI::simd
