// decant/codec/concept.hpp - what a number format must answer.
//
// A codec maps one number to one stored cell and back, possibly with loss. It also says how many
// consecutive numbers of one lane lie side by side in a panel (`kInterleave`), and widens any of
// them in a run of 16 * kInterleave cells; widening is exact.
//
// Depends on  core/simd.hpp, core/types.hpp
// Tested by   tests/codec/plain_test.cpp, tests/codec/scaled_test.cpp, which run the laws
#pragma once

#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>

namespace decant::inline v0::codec {

// The formats that the library can store, by name. The plain ones store a number in a cell; blocks
// of weights share a scale (codec/block.hpp), and so do rows of keys or values (codec/scaled.hpp).
enum class Type { f32, bf16, f16, q8_0, q4_0, int8, fp8_e4m3, fp8_e5m2 };

inline constexpr std::array kTypes = {Type::f32,  Type::bf16, Type::f16,      Type::q8_0,
                                      Type::q4_0, Type::int8, Type::fp8_e4m3, Type::fp8_e5m2};

constexpr std::string_view name(Type type) noexcept {
  constexpr std::array<std::string_view, kTypes.size()> kNames = {
      "f32", "bf16", "f16", "q8_0", "q4_0", "int8", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr bool is_block(Type type) noexcept { return type == Type::q8_0 || type == Type::q4_0; }
constexpr bool is_scaled(Type type) noexcept {
  return type == Type::int8 || type == Type::fp8_e4m3 || type == Type::fp8_e5m2;
}

// The type called `text`, if there is one.
constexpr std::optional<Type> parse(std::string_view text) noexcept {
  for (Type type : kTypes) {
    if (name(type) == text) return type;
  }
  return std::nullopt;
}

// Numbers of a scaled codec are multiples of a scale that their row has, so that none is larger
// than kLargest; those of the others are stored as they are.
//
// Laws     store(load(cell)) is cell for every cell that store() gives: a copied row does not drift
//          widen<k>(cells) gives number k of every lane as load() gives it: that of lane n is
//          cells[n * kInterleave + k]
template <class C>
concept Codec = requires(float number, typename C::Cell cell, const typename C::Cell* cells) {
  { C::kType } -> std::convertible_to<Type>;
  { C::kInterleave } -> std::convertible_to<Index>;
  { C::kScaled } -> std::convertible_to<bool>;
  { C::store(number) }
  noexcept->std::same_as<typename C::Cell>;
  { C::load(cell) }
  noexcept->std::same_as<float>;
  { C::template widen<C::kInterleave - 1>(cells) }
  noexcept->std::same_as<Lanes>;
};

}  // namespace decant::inline v0::codec
