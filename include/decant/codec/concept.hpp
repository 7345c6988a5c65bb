// decant/codec/concept.hpp - what a number format must answer.
//
// A codec maps one number to one stored cell and back, possibly with loss. It also says how many
// consecutive numbers of one lane lie side by side in a panel (`kInterleave`), and widens any of
// them in a run of 16 * kInterleave cells; widening is exact.
//
// Depends on  codec/type.hpp, core/simd.hpp, core/types.hpp
// Tested by   tests/codec/plain_test.cpp, tests/codec/scaled_test.cpp, which run the laws
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <concepts>

namespace decant::inline v0::codec {

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
