// decant/codec/scaled.hpp - the formats of keys and values that have a scale: int8 and the two fp8
// formats, a byte a value, and int4, half a byte.
//
// A key or a value of one token and head has a scale of its own, chosen so that its largest element
// becomes the largest of the format. A key's scale multiplies its score and a value's its weight,
// so no element is multiplied by it. Integer keys, int8 and int4, meet queries quantised to
// integers (attention/detail/query_tile.hpp), and their sums are exact. One element far above the
// others costs those their bits: models with such keys need a 16-bit format. int4 has a scale for
// every 32 elements of a row, as weights in four bits have them; it multiplies the sum over the
// group of a key, and the elements of a value as they are widened.
//
// Source      Micikevicius et al. 2022, arXiv:2209.05433 (fp8)
// Tested by   tests/codec/{scaled,int4}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scale.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace decant::inline DECANT_ABI::codec {

namespace detail {

// A sign, five bits of exponent as an f16 has them and `Fraction` bits of fraction: the nearest to
// `value` of those up to `largest`, ties to even. It is rounded once, from the f32. NaN becomes
// the seven bits beside the sign, which e4m3 loads as a finite value: the scale of its row is NaN.
template <int Fraction>
std::uint8_t store_fp8(float value, float largest) noexcept {
  const float bound = std::clamp(value, -largest, largest);
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

  static Cell store(float value) noexcept {
    const float whole = std::nearbyint(std::clamp(value, -kLargest, kLargest));
    return static_cast<Cell>(std::isnan(whole) ? 0.0f : whole);
  }
  static float load(Cell cell) noexcept { return static_cast<float>(cell); }

  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;
  static simd::IntLanes widen_int16(const Cell* cells) noexcept;
};

// A cell holds two integers from -7 to 7, each plus 8.
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
  static simd::Lanes widen(const Cell* cells) noexcept;
  static simd::IntLanes widen_int16(const Cell* cells) noexcept;

 private:
  static unsigned half_of(float value) noexcept {
    const float whole = std::nearbyint(std::clamp(value, -kLargest, kLargest));
    return static_cast<unsigned>(static_cast<int>(std::isnan(whole) ? 0.0f : whole) + 8);
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

  static Cell store(float value) noexcept { return detail::store_fp8<2>(value, kLargest); }
  static float load(Cell cell) noexcept {
    return F16::load({static_cast<std::uint16_t>(cell << 8)});
  }

  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;
};

// Four bits of exponent, three of fraction, no infinity; an f16 of the same bits is 2^8 times
// smaller, so the scale of a row makes up for it and `load` gives 2^-8 times the format's value.
struct FP8E4M3 {
  using Cell = std::uint8_t;
  static constexpr Type kType = Type::fp8_e4m3;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 448.0f / 256.0f;

  static Cell store(float value) noexcept { return detail::store_fp8<3>(value, kLargest); }
  static float load(Cell cell) noexcept { return F16::load(half_of(cell)); }

  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;

 private:
  static constexpr F16::Cell half_of(Cell cell) noexcept {
    return {static_cast<std::uint16_t>((cell & 0x80) << 8 | (cell & 0x7F) << 7)};
  }
};

static_assert(IntegerCodec<Int8> && IntegerCodec<Int4> && Codec<FP8E4M3> && Codec<FP8E5M2>);

// The scale of a row, or of a group of one: for a scaled codec, the one that makes the largest
// value the format's largest; zero if that is too small to divide by; NaN if a value is not finite.
// For any other codec 1.
template <Codec C>
float scale_of(std::span<const float> row) noexcept {
  if constexpr (C::kScaled) {
    return scale_for(std::abs(largest_of(row)), C::kLargest);
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

}  // namespace decant::inline DECANT_ABI::codec
