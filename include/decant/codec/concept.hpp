// decant/codec/concept.hpp - what a number format must answer.
//
// A codec maps one number to one stored cell and back, possibly with loss. It also says how many
// consecutive numbers of one lane lie side by side in a panel (`kInterleave`), and widens any of
// them in a run of 16 * kInterleave cells; widening is exact.
//
// Depends on  core/simd.hpp, core/types.hpp
// Tested by   tests/codec/plain_test.cpp, which runs the laws on every codec
#pragma once

#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <array>
#include <concepts>
#include <optional>
#include <string_view>

namespace decant::inline v0::codec {

// The formats that the library can store, by name. The plain ones store a number in a cell; blocks
// of weights share a scale (codec/block.hpp).
enum class Type { f32, bf16, f16, q8_0, q4_0 };

constexpr bool is_block(Type type) noexcept { return type == Type::q8_0 || type == Type::q4_0; }

inline constexpr std::array kTypes = {Type::f32, Type::bf16, Type::f16, Type::q8_0, Type::q4_0};

constexpr std::string_view name(Type type) noexcept {
  switch (type) {
    case Type::bf16:
      return "bf16";
    case Type::f16:
      return "f16";
    case Type::q8_0:
      return "q8_0";
    case Type::q4_0:
      return "q4_0";
    default:
      return "f32";
  }
}

// The type called `text`, if there is one.
constexpr std::optional<Type> parse(std::string_view text) noexcept {
  for (Type type : kTypes) {
    if (name(type) == text) return type;
  }
  return std::nullopt;
}

// Laws     store(load(cell)) is the same cell of every number: a copied row does not drift
//          widen<k>(cells) gives number k of every lane as load() gives it: that of lane n is
//          cells[n * kInterleave + k]
template <class C>
concept Codec = requires(float number, typename C::Cell cell, const typename C::Cell* cells) {
  { C::kType } -> std::convertible_to<Type>;
  { C::kInterleave } -> std::convertible_to<Index>;
  { C::store(number) }
  noexcept->std::same_as<typename C::Cell>;
  { C::load(cell) }
  noexcept->std::same_as<float>;
  { C::template widen<C::kInterleave - 1>(cells) }
  noexcept->std::same_as<Lanes>;
};

}  // namespace decant::inline v0::codec
