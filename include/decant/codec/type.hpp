// decant/codec/type.hpp - the names of the number formats.
//
// Tested by   tests/codec/plain_test.cpp
#pragma once

#include <decant/core/abi.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace decant::inline DECANT_ABI::codec {

// The formats that the library can store, by name. The plain ones store a number in a cell; blocks
// of weights share a scale (codec/block.hpp), and so do rows of keys or values, or
// groups of their elements (codec/scaled.hpp).
enum class Type { f32, bf16, f16, q8_0, q4_0, int8, int4, fp8_e4m3, fp8_e5m2 };

inline constexpr std::array kTypes = {Type::f32,  Type::bf16,     Type::f16,
                                      Type::q8_0, Type::q4_0,     Type::int8,
                                      Type::int4, Type::fp8_e4m3, Type::fp8_e5m2};

constexpr std::string_view name(Type type) noexcept {
  constexpr std::array<std::string_view, kTypes.size()> kNames = {
      "f32", "bf16", "f16", "q8_0", "q4_0", "int8", "int4", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr bool is_block(Type type) noexcept { return type == Type::q8_0 || type == Type::q4_0; }
constexpr bool is_scaled(Type type) noexcept {
  return type == Type::int8 || type == Type::int4 || type == Type::fp8_e4m3 ||
         type == Type::fp8_e5m2;
}

// The type called `text`, if there is one.
constexpr std::optional<Type> parse(std::string_view text) noexcept {
  for (Type type : kTypes) {
    if (name(type) == text) return type;
  }
  return std::nullopt;
}

}  // namespace decant::inline DECANT_ABI::codec
