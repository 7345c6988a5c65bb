// decant/codec/concept.hpp - what a number format must answer.
//
// A codec maps one number to one stored cell and back, possibly with loss. It also says how many
// consecutive numbers of one lane lie side by side in a panel (`kInterleave`), and widens a run
// of 16 * kInterleave cells into that many Lanes; widening is exact.
//
// Depends on  core/simd.hpp, core/types.hpp
// Tested by   tests/codec/plain_test.cpp, which runs the laws on every codec
#pragma once

#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <concepts>

namespace decant::inline v0::codec {

// The formats that the library can store, by name.
enum class Type { f32, bf16, f16 };

// Laws     store(load(cell)) is the same cell of every number: a copied row does not drift
//          widen() gives what load() gives, cell by cell: number k of lane n is
//          cells[n * kInterleave + k], and comes out as lanes[k][n]
template <class C>
concept Codec = requires(float number, typename C::Cell cell, const typename C::Cell* cells,
                         Lanes* lanes) {
  { C::kType } -> std::convertible_to<Type>;
  { C::kInterleave } -> std::convertible_to<Index>;
  { C::store(number) }
  noexcept->std::same_as<typename C::Cell>;
  { C::load(cell) }
  noexcept->std::same_as<float>;
  { C::widen(cells, lanes) }
  noexcept;
};

}  // namespace decant::inline v0::codec
