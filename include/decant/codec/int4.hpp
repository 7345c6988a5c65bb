// decant/codec/int4.hpp - half a byte a number, with a scale for every 32 of a row.
//
// A cell holds two whole numbers from -7 to 7, each plus 8. Groups of 32, as weights in four bits
// have them: a row of 128 numbers that shares one scale would lose most of its numbers to zero.
//
// Tested by   tests/codec/int4_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#if defined(EIGEN_VECTORIZE_AVX512) || defined(EIGEN_VECTORIZE_AVX2)
#include <immintrin.h>
#endif

namespace decant::inline v0::codec {

struct Int4 {
  using Cell = std::uint8_t;
  static constexpr Type kType = Type::int4;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 2;
  static constexpr Index kGroup = 32;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 7.0f;

  static Cell store(float low, float high) noexcept {
    return static_cast<Cell>(half_of(low) | half_of(high) << 4);
  }
  static float load(Cell cell, Index part) noexcept {
    return static_cast<float>((cell >> (4 * part) & 15) - 8);
  }

  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
    const __m512 numbers = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
    const __m512i words = _mm512_cvtepu8_epi32(bytes);  // the look-up reads their four low bits
    return {{_mm512_permutexvar_ps(I == 0 ? words : _mm512_srli_epi32(words, 4), numbers)}};
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
  static DECANT_ALWAYS_INLINE simd::IntLanes widen_int16(const Cell* cells) noexcept {
    return simd::int16_of_nibbles(cells);
  }

 private:
  static unsigned half_of(float number) noexcept {
    const float whole = std::nearbyint(std::clamp(number, -kLargest, kLargest));
    return static_cast<unsigned>(static_cast<int>(std::isnan(whole) ? 0.0f : whole) + 8);
  }
};

static_assert(IntegerCodec<Int4>);

}  // namespace decant::inline v0::codec
