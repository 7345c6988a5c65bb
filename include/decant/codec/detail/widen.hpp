// decant/codec/detail/widen.hpp - cells widened to vectors, sixteen lanes at a time: what kernels
// ask of a codec.
//
// Tested by   tests/codec/{plain,scaled,int4}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <cstdint>

#if defined(EIGEN_VECTORIZE_AVX512) || defined(EIGEN_VECTORIZE_AVX2) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace decant::inline DECANT_ABI::codec {

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes F32::widen(const Cell* cells) noexcept {
  return simd::load(cells);
}

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes BF16::widen(const Cell* cells) noexcept {
  const simd::Lanes words = simd::load_words(cells);
  return I == 0 ? simd::low_halves(words) : simd::high_halves(words);
}

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes F16::widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
  return {{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(cells)))}};
#else
  alignas(64) float wide[kLanes];
#if defined(__F16C__)
  for (int n = 0; n < kLanes; n += 8) {
    const auto narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells + n));
    _mm256_store_ps(wide + n, _mm256_cvtph_ps(narrow));
  }
#else
  for (int n = 0; n < kLanes; ++n) wide[n] = load(cells[n]);
#endif
  return simd::load(wide);
#endif
}

namespace detail {

// Sixteen f16 cells, widened.
template <class F>
DECANT_ALWAYS_INLINE simd::Lanes widen_halves(F&& cell_of) noexcept {
  F16::Cell halves[kLanes];
  for (int n = 0; n < kLanes; ++n) halves[n] = cell_of(n);
  return F16::widen<0>(halves);
}

}  // namespace detail

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes Int8::widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
  return {{_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))}};
#elif defined(EIGEN_VECTORIZE_AVX2)
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(cells));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(cells + 8));
  return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))}};
#else
  alignas(64) float wide[kLanes];
  for (int n = 0; n < kLanes; ++n) wide[n] = load(cells[n]);
  return simd::load(wide);
#endif
}

DECANT_ALWAYS_INLINE simd::IntLanes Int8::widen_int16(const Cell* cells) noexcept {
  return simd::int16_of_bytes(cells);
}

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes Int4::widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
  const __m512 values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
  const __m512i words = _mm512_cvtepu8_epi32(bytes);  // the look-up reads their four low bits
  return {{_mm512_permutexvar_ps(I == 0 ? words : _mm512_srli_epi32(words, 4), values)}};
#elif defined(EIGEN_VECTORIZE_AVX2)
  const auto eight = [](const Cell* at) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    const __m256i words = _mm256_cvtepu8_epi32(bytes);
    const __m256i halves =
        I == 0 ? _mm256_and_si256(words, _mm256_set1_epi32(15)) : _mm256_srli_epi32(words, 4);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(halves, _mm256_set1_epi32(8)));
  };
  return {{eight(cells), eight(cells + 8)}};
#else
  alignas(64) float wide[kLanes];
  for (int n = 0; n < kLanes; ++n) wide[n] = load(cells[n], I);
  return simd::load(wide);
#endif
}

DECANT_ALWAYS_INLINE simd::IntLanes Int4::widen_int16(const Cell* cells) noexcept {
  return simd::int16_of_nibbles(cells);
}

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes FP8E5M2::widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
  return {{_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8))}};
#else
  return detail::widen_halves(
      [&](int n) { return F16::Cell{static_cast<std::uint16_t>(cells[n] << 8)}; });
#endif
}

template <int I>
DECANT_ALWAYS_INLINE simd::Lanes FP8E4M3::widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
  const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);  // the sign twice
  return {{_mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16(short(0xBFFF))))}};
#else
  return detail::widen_halves([&](int n) { return half_of(cells[n]); });
#endif
}

}  // namespace decant::inline DECANT_ABI::codec
