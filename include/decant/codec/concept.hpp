// decant/codec/concept.hpp - what a number format must answer.
//
// A codec maps the kPack numbers of a cell to what is stored and back, possibly with loss. It also
// says how many consecutive cells of one lane lie side by side in a panel (`kInterleave`), and
// widens any of their numbers in a run of 16 * kInterleave cells; widening is exact.
//
// Tested by   tests/codec/{plain,scaled,int4}_test.cpp, which run the laws
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/config.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <concepts>

namespace decant::inline v0::codec {

inline constexpr Index kLargestPack = 2;

template <class C>
concept StoresOne = C::kPack == 1 && requires(float number, typename C::Cell cell) {
  { C::store(number) } noexcept -> std::same_as<typename C::Cell>;
  { C::load(cell) } noexcept -> std::same_as<float>;
};

// Two numbers a cell; load() gives either, 0 or 1.
template <class C>
concept StoresTwo = C::kPack == 2 && C::kInterleave == 1 &&
                    requires(float number, typename C::Cell cell, Index part) {
                      { C::store(number, number) } noexcept -> std::same_as<typename C::Cell>;
                      { C::load(cell, part) } noexcept -> std::same_as<float>;
                    };

template <class C>
concept StoresNumbers = StoresOne<C> || StoresTwo<C>;

// A scaled codec stores a number divided by a scale, so that none exceeds kLargest. A row has one
// scale, or one for every kGroup numbers where that is not 0. Those of the others are stored as
// they are.
//
// Laws     store(load(cell)) is cell for every cell that store() gives: a copied row does not drift
//          widen<k>(cells) gives number k of every lane as load() gives it: with one number a cell
//          that of lane n is cells[n * kInterleave + k], with two it is number k of cells[n]
template <class C>
concept Codec = StoresNumbers<C> && requires(const typename C::Cell* cells) {
  { C::kType } -> std::convertible_to<Type>;
  { C::kInterleave } -> std::convertible_to<Index>;
  { C::kScaled } -> std::convertible_to<bool>;
  { C::kGroup } -> std::convertible_to<Index>;
  requires(!C::kScaled) || requires { C::kLargest; };
  { C::template widen<C::kInterleave * C::kPack - 1>(cells) } noexcept -> std::same_as<simd::Lanes>;
};

// One whose numbers are whole, of a size up to 128, and which gives two numbers of every lane, and
// so two columns of a panel, as the 16-bit halves of a word: of a run of 16 cells where a cell
// holds both, else of two runs.
template <class C>
concept IntegerCodec =
    Codec<C> && C::kScaled && C::kInterleave == 1 && requires(const typename C::Cell* cells) {
      { C::widen_int16(cells) } noexcept -> std::same_as<simd::IntLanes>;
    };

// The cell of number(0) and, where it holds two, number(1); and one of its numbers.
template <Codec C, class F>
DECANT_ALWAYS_INLINE typename C::Cell store(F&& number) noexcept {
  if constexpr (C::kPack == 1) {
    return C::store(number(Index{0}));
  } else {
    return C::store(number(Index{0}), number(Index{1}));
  }
}
template <Codec C>
float load(typename C::Cell cell, [[maybe_unused]] Index part) noexcept {
  if constexpr (C::kPack == 1) {
    return C::load(cell);
  } else {
    return C::load(cell, part);
  }
}

// How many scales a row of `numbers` numbers has.
template <Codec C>
constexpr Index scales_of_row(Index numbers) noexcept {
  if (!C::kScaled) return 0;
  return C::kGroup == 0 ? 1 : ceil_div(numbers, std::max<Index>(1, C::kGroup));
}

}  // namespace decant::inline v0::codec
