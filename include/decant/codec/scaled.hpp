// decant/codec/scaled.hpp - the formats of keys and values that count in multiples of a scale: int8
// and the two fp8 formats, a byte a number, and int4 (codec/int4.hpp).
//
// A key or a value of one token and head has a scale of its own, by which its largest number is the
// largest of the format. A key's scale multiplies its score and a value's its weight, so that no
// number is multiplied by it. Keys that are whole numbers, int8 and int4, meet queries rounded to
// whole numbers too (attention/query_tile.hpp), whose sums are exact. One number far above
// the others costs them their bits: where a model has such keys, they need a 16-bit format. int4
// has a scale for every 32 numbers of a row, which multiplies the sum of those of a key, and those
// of a value as they are widened.
//
// Source      Micikevicius et al. 2022, arXiv:2209.05433 (fp8)
// Tested by   tests/codec/scaled_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/int4.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#if defined(EIGEN_VECTORIZE_AVX512) || defined(EIGEN_VECTORIZE_AVX2)
#include <immintrin.h>
#endif

namespace decant::inline v0::codec {

namespace detail {

// Sixteen halves, given as their bits, widened.
template <class F>
DECANT_ALWAYS_INLINE simd::Lanes widen_halves(F&& bits_of) noexcept {
  F16::Cell halves[kLanes];
  for (int n = 0; n < kLanes; ++n) {
    halves[n] = Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(bits_of(n)));
  }
  return F16::widen<0>(halves);
}

// A sign, five bits of exponent as an f16 has them and `Fraction` bits of fraction: the nearest to
// `number` of those up to `largest`, ties to even. It is rounded once, from the f32. What is no
// number becomes the seven bits beside the sign, which e4m3 loads as a number: its row's scale is
// none.
template <int Fraction>
std::uint8_t store_fp8(float number, float largest) noexcept {
  const float bound = std::clamp(number, -largest, largest);
  if (std::isnan(bound)) return 0x7F;
  const auto bits = std::bit_cast<std::uint32_t>(bound);
  const std::uint32_t sign = bits >> 24 & 0x80;
  const float size = std::abs(bound);
  if (size < 0x1p-14f) {  // a multiple of the smallest
    constexpr float kSteps = 1 << (14 + Fraction);
    return static_cast<std::uint8_t>(sign |
                                     static_cast<std::uint32_t>(std::nearbyint(size * kSteps)));
  }
  constexpr int kCut = 23 - Fraction;
  const std::uint32_t rebased = (bits & 0x7FFFFFFF) - (112u << 23);
  const std::uint32_t half = (1u << (kCut - 1)) - 1;
  return static_cast<std::uint8_t>(sign | (rebased + half + (rebased >> kCut & 1)) >> kCut);
}

}  // namespace detail

struct Int8 {
  using Cell = std::int8_t;
  static constexpr Type kType = Type::int8;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 127.0f;

  static Cell store(float number) noexcept {
    const float whole = std::nearbyint(std::clamp(number, -kLargest, kLargest));
    return static_cast<Cell>(std::isnan(whole) ? 0.0f : whole);
  }
  static float load(Cell cell) noexcept { return static_cast<float>(cell); }

  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
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
  static DECANT_ALWAYS_INLINE simd::IntLanes widen_int16(const Cell* cells) noexcept {
    return simd::int16_of_bytes(cells);
  }
};

// Five bits of exponent, two of fraction: the upper half of an f16.
struct FP8E5M2 {
  using Cell = std::uint8_t;
  static constexpr Type kType = Type::fp8_e5m2;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 57344.0f;

  static Cell store(float number) noexcept { return detail::store_fp8<2>(number, kLargest); }
  static float load(Cell cell) noexcept {
    return static_cast<float>(
        Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(cell << 8)));
  }

  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
    return {{_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8))}};
#else
    return detail::widen_halves([&](int n) { return cells[n] << 8; });
#endif
  }
};

// Four bits of exponent, three of fraction, no infinity; an f16 of the same bits is 2^8 times
// smaller, so the scale of a row makes up for it and `load` gives 2^-8 times the format's number.
struct FP8E4M3 {
  using Cell = std::uint8_t;
  static constexpr Type kType = Type::fp8_e4m3;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 448.0f / 256.0f;

  static Cell store(float number) noexcept { return detail::store_fp8<3>(number, kLargest); }
  static float load(Cell cell) noexcept {
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(half_of(cell)));
  }

  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
#if defined(EIGEN_VECTORIZE_AVX512)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells));
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);  // the sign twice
    return {{_mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16(short(0xBFFF))))}};
#else
    return detail::widen_halves([&](int n) { return half_of(cells[n]); });
#endif
  }

 private:
  static constexpr std::uint16_t half_of(Cell cell) noexcept {
    return static_cast<std::uint16_t>((cell & 0x80) << 8 | (cell & 0x7F) << 7);
  }
};

static_assert(IntegerCodec<Int8> && Codec<FP8E4M3> && Codec<FP8E5M2>);

// What the numbers of a row, or of a group of one, are multiples of: by a scaled codec, that which
// makes the largest the format's largest, zero where that is too small to divide by, and no number
// where there is one that is none; else 1.
template <Codec C>
float scale_of(std::span<const float> row) noexcept {
  if constexpr (C::kScaled) {
    float largest = 0.0f;
    bool numbers = true;
    for (float number : row) {
      largest = std::max(largest, std::abs(number));
      numbers = numbers && std::isfinite(number);
    }
    if (!numbers) return std::numeric_limits<float>::quiet_NaN();
    const float scale = largest / C::kLargest;
    return scale < std::numeric_limits<float>::min() ? 0.0f : scale;  // 1 / scale must be finite
  } else {
    return 1.0f;
  }
}

// f(codec) with the codec of a format that a cache may have.
//
// Errors   std::invalid_argument for a block type
template <class F>
constexpr decltype(auto) visit_cache(Type type, F&& f) {
  switch (type) {
    case Type::int8:
      return std::forward<F>(f)(Int8{});
    case Type::int4:
      return std::forward<F>(f)(Int4{});
    case Type::fp8_e4m3:
      return std::forward<F>(f)(FP8E4M3{});
    case Type::fp8_e5m2:
      return std::forward<F>(f)(FP8E5M2{});
    default:
      return visit(type, std::forward<F>(f));
  }
}

}  // namespace decant::inline v0::codec
