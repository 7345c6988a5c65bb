// decant/codec/plain.hpp - the floating-point formats: f32, bf16 and f16.
//
// Rounding is to nearest, ties to even; widening is exact. bf16 cells lie in pairs, because a pair
// widens with one shift and one mask and is what the machines' bf16 products want; f16 has no such
// product, so its cells lie in lane order, as the conversion instructions read them.
//
// Source      IEEE 754-2019 (binary16, binary32); bfloat16 is the upper half of a binary32
// Tested by   tests/codec/plain_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <Eigen/Core>
#include <bit>
#include <cstdint>
#include <utility>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace decant::inline v0::codec {

struct F32 {
  using Cell = float;
  static constexpr Type kType = Type::f32;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float number) noexcept { return number; }
  static float load(Cell cell) noexcept { return cell; }
  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
    return simd::load(cells);
  }
};

struct BF16 {
  using Cell = Eigen::bfloat16;
  static constexpr Type kType = Type::bf16;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 2;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float number) noexcept { return Cell(number); }
  static float load(Cell cell) noexcept { return static_cast<float>(cell); }

  // Each 32-bit word holds number 0 of its lane in the low half and number 1 in the high half.
  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
    const simd::Lanes pairs = simd::load_words(cells);
    return I == 0 ? simd::low_halves(pairs) : simd::high_halves(pairs);
  }
};

struct F16 {
  using Cell = Eigen::half;
  static constexpr Type kType = Type::f16;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float number) noexcept { return Cell(number); }
  static float load(Cell cell) noexcept { return static_cast<float>(cell); }

  template <int I>
  static DECANT_ALWAYS_INLINE simd::Lanes widen(const Cell* cells) noexcept {
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
};

static_assert(Codec<F32> && Codec<BF16> && Codec<F16>);

// f(codec) with the codec of a plain type: where a runtime choice becomes a static one.
//
// Errors   std::invalid_argument for a type whose numbers share scales
template <class F>
constexpr decltype(auto) visit(Type type, F&& f) {
  expects(!is_block(type) && !is_scaled(type), "codec::visit: ", name(type),
          " is no format of single numbers");
  switch (type) {
    case Type::bf16:
      return std::forward<F>(f)(BF16{});
    case Type::f16:
      return std::forward<F>(f)(F16{});
    default:
      return std::forward<F>(f)(F32{});
  }
}

// Units    bytes of one number of a plain type
constexpr Index cell_bytes(Type type) noexcept { return type == Type::f32 ? 4 : 2; }

}  // namespace decant::inline v0::codec
