// decant/codec/plain.hpp - the floating-point formats: f32, bf16 and f16.
//
// Rounding is to nearest, ties to even; widening is exact. bf16 cells lie two by two, because two
// widen with one shift and one mask and are what the machines' bf16 products take; f16 has no such
// product, so its cells lie in lane order, as the conversion instructions read them.
//
// Source      IEEE 754-2019 (binary16, binary32); bfloat16 is the upper half of a binary32
// Tested by   tests/codec/plain_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <bit>
#include <cstdint>
#include <utility>

namespace decant::inline DECANT_ABI::codec {

struct F32 {
  using Cell = float;
  static constexpr Type kType = Type::f32;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float value) noexcept { return value; }
  static float load(Cell cell) noexcept { return cell; }
  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;
};

struct BF16 {
  struct Cell {
    std::uint16_t bits;
    friend bool operator==(Cell, Cell) = default;
  };
  static constexpr Type kType = Type::bf16;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 2;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    const std::uint32_t upper =
        nan ? (bits >> 16 & 0x8000) | 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return {static_cast<std::uint16_t>(upper)};
  }
  static float load(Cell cell) noexcept {
    return std::bit_cast<float>(std::uint32_t{cell.bits} << 16);
  }

  // Each 32-bit word holds value 0 of its lane in the low half and value 1 in the high half.
  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;
};

struct F16 {
  struct Cell {
    std::uint16_t bits;
    friend bool operator==(Cell, Cell) = default;
  };
  static constexpr Type kType = Type::f16;
  static constexpr bool kScaled = false;
  static constexpr Index kInterleave = 1;
  static constexpr Index kPack = 1;
  static constexpr Index kGroup = 0;

  static Cell store(float value) noexcept;
  static float load(Cell cell) noexcept;
  template <int I>
  static simd::Lanes widen(const Cell* cells) noexcept;
};

static_assert(Codec<F32> && Codec<BF16> && Codec<F16>);

namespace detail {

// The conversions between f16 and f32, as the machines' instructions do them: a NaN becomes quiet
// with its sign and as much of its payload as fits.
inline std::uint16_t f16_of_f32(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t size = bits & 0x7FFFFFFF;
  const auto signed_bits = [sign](std::uint32_t magnitude) {
    return static_cast<std::uint16_t>(sign | magnitude);
  };
  if (size > 0x7F800000) return signed_bits(0x7E00 | (size >> 13 & 0x1FF));
  if (size >= 0x47800000) return signed_bits(0x7C00);  // 2^16 and above: infinity
  if (size < 0x38800000) {  // below 2^-14, where neighbours are as far apart as those of 0.5f
    const float rounded = std::bit_cast<float>(size) + 0.5f;
    return signed_bits(std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(0.5f));
  }
  const std::uint32_t rebased = size - (112u << 23);
  return signed_bits((rebased + 0xFFF + (rebased >> 13 & 1)) >> 13);
}
inline float f32_of_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t size = bits & 0x7FFFu;
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size << 13) * 0x1p112f);
  const std::uint32_t quiet = size > 0x7C00 ? 0x400000 : 0;
  const std::uint32_t other = 0x7F800000 | size << 13 | quiet;
  return std::bit_cast<float>(sign | (size < 0x7C00 ? finite : other));
}

}  // namespace detail

#if defined(__F16C__) && (defined(__GNUC__) || defined(__clang__))
inline F16::Cell F16::store(float value) noexcept {
  using Floats = float __attribute__((vector_size(16)));
  return {static_cast<std::uint16_t>(__builtin_ia32_vcvtps2ph(Floats{value}, 0)[0])};
}
inline float F16::load(Cell cell) noexcept {
  using Halves = short __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps(Halves{static_cast<short>(cell.bits)})[0];
}
#else
inline F16::Cell F16::store(float value) noexcept { return {detail::f16_of_f32(value)}; }
inline float F16::load(Cell cell) noexcept { return detail::f32_of_f16(cell.bits); }
#endif

// f(codec) with the codec of a plain type: here a choice made at run time becomes a static one.
//
// Errors   std::invalid_argument for a type whose values share scales
template <class F>
constexpr decltype(auto) visit(Type type, F&& f) {
  expects(!is_block(type) && !is_scaled(type), "codec::visit: ", name(type),
          " is not a format of single values");
  switch (type) {
    case Type::bf16:
      return std::forward<F>(f)(BF16{});
    case Type::f16:
      return std::forward<F>(f)(F16{});
    default:
      return std::forward<F>(f)(F32{});
  }
}

// Units    bytes of one value of a plain type
constexpr Index cell_bytes(Type type) noexcept { return type == Type::f32 ? 4 : 2; }

}  // namespace decant::inline DECANT_ABI::codec
