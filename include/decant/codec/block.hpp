// decant/codec/block.hpp - weights in blocks of 32 that share one scale: q8_0 and q4_0.
//
// A block is what a file stores: a scale in f16 and 32 small integers; a weight is scale times
// integer. Quantising follows the format's reference, so a weight quantised here has the bits that
// another tool would have written.
//
// Source      GGUF: block_q8_0 and block_q4_0 of the ggml library
// Tested by   tests/codec/block_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scale.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace decant::inline DECANT_ABI::codec {

inline constexpr Index kBlockWeights = 32;

namespace detail {

inline std::uint16_t f16_bits(float value) noexcept { return F16::store(value).bits; }

// A block with a weight that is not finite gets this scale.
inline constexpr std::uint16_t kNaNScale = 0x7E00;

// a * b, rounded before anything is added to it, at every level of optimisation: a compiler that
// fuses both would quantise some weights to another integer than the format's reference.
inline float rounded_product(float a, float b) noexcept {
  float product = a * b;
#if defined(__GNUC__) || defined(__clang__)
  asm("" : "+m"(product));
#endif
  return product;
}

}  // namespace detail

// Integers in [-127, 127] (-128 is read, and never written): weight i is scale * integers[i].
struct Q8_0 {
  static constexpr Type kType = Type::q8_0;
  static constexpr int kBits = 8;
  static constexpr std::int32_t kZero = 128;  // what products add to make integers unsigned

  struct Block {
    std::uint16_t scale;  // f16
    std::array<std::int8_t, 32> integers;
  };

  static std::int32_t integer(const Block& block, Index i) noexcept {
    return block.integers[static_cast<std::size_t>(i)];
  }

  static Block quantise(std::span<const float, 32> weights) noexcept {
    const float scale = std::abs(largest_of(weights)) / 127.0f;
    if (std::isnan(scale)) return {detail::kNaNScale, {}};
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    Block block{detail::f16_bits(scale), {}};
    for (std::size_t i = 0; i < 32; ++i) {
      block.integers[i] = static_cast<std::int8_t>(std::round(weights[i] * inverse));
    }
    return block;
  }

  // Bytes as panels hold them: unsigned, shifted by kZero.
  static std::array<std::uint8_t, 32> packed(const Block& block) noexcept {
    std::array<std::uint8_t, 32> bytes;
    for (std::size_t i = 0; i < 32; ++i) {
      bytes[i] = static_cast<std::uint8_t>(block.integers[i] + kZero);
    }
    return bytes;
  }
  static Block unpacked(const std::array<std::uint8_t, 32>& bytes) noexcept {
    Block block{};
    for (std::size_t i = 0; i < 32; ++i) {
      block.integers[i] = static_cast<std::int8_t>(bytes[i] - kZero);
    }
    return block;
  }
};

// Integers in [0, 15]: weight i is scale * (integer - 8). Byte j holds integer j in its low half
// and integer j + 16 in its high half.
struct Q4_0 {
  static constexpr Type kType = Type::q4_0;
  static constexpr int kBits = 4;
  static constexpr std::int32_t kZero = 8;

  struct Block {
    std::uint16_t scale;  // f16
    std::array<std::uint8_t, 16> bytes;
  };

  static std::int32_t integer(const Block& block, Index i) noexcept {
    const std::uint8_t byte = block.bytes[static_cast<std::size_t>(i % 16)];
    return (i < 16 ? byte & 0x0F : byte >> 4) - kZero;
  }

  // The weight of largest size becomes -8, so that one end of the range is used.
  static Block quantise(std::span<const float, 32> weights) noexcept {
    const float scale = largest_of(weights) / -8.0f;
    if (std::isnan(scale)) return {detail::kNaNScale, {}};
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    const auto integer = [&](std::size_t i) {
      return static_cast<std::uint8_t>(
          std::min(15.0f, std::trunc(detail::rounded_product(weights[i], inverse) + 8.5f)));
    };
    Block block{detail::f16_bits(scale), {}};
    for (std::size_t j = 0; j < 16; ++j) {
      block.bytes[j] = static_cast<std::uint8_t>(integer(j) | integer(j + 16) << 4);
    }
    return block;
  }

  static std::array<std::uint8_t, 16> packed(const Block& block) noexcept { return block.bytes; }
  static Block unpacked(const std::array<std::uint8_t, 16>& bytes) noexcept { return {0, bytes}; }
};

static_assert(sizeof(Q8_0::Block) == 34 && sizeof(Q4_0::Block) == 18);

template <class Q>
concept BlockCodec = requires(typename Q::Block block, std::span<const float, 32> weights) {
  { Q::kType } -> std::convertible_to<Type>;
  { Q::kZero } -> std::convertible_to<std::int32_t>;
  { Q::integer(block, Index{0}) } -> std::same_as<std::int32_t>;
  { Q::quantise(weights) } -> std::same_as<typename Q::Block>;
};
static_assert(BlockCodec<Q8_0> && BlockCodec<Q4_0>);

template <BlockCodec Q>
float scale_of(const typename Q::Block& block) noexcept {
  return F16::load({block.scale});
}

template <BlockCodec Q>
void load(const typename Q::Block& block, std::span<float, 32> weights) noexcept {
  const float scale = scale_of<Q>(block);
  for (Index i = 0; i < 32; ++i) {
    weights[static_cast<std::size_t>(i)] = scale * static_cast<float>(Q::integer(block, i));
  }
}

// f(codec) with the codec of any type.
template <class F>
constexpr decltype(auto) visit_weights(Type type, F&& f) {
  if (type == Type::q8_0) return std::forward<F>(f)(Q8_0{});
  if (type == Type::q4_0) return std::forward<F>(f)(Q4_0{});
  return visit(type, std::forward<F>(f));
}

}  // namespace decant::inline DECANT_ABI::codec
