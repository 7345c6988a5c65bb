// decant/codec/concept.hpp - the concept of a number format.
//
// A codec maps the kPack values of a cell to what is stored and back, possibly with loss. It also
// says how many consecutive cells of one lane lie side by side in a panel (`kInterleave`), and
// widens any of their values in a run of 16 * kInterleave cells to f32; widening is exact. Kernels
// alone widen, so the vectors stay declared here: codec/detail/widen.hpp defines those of our
// codecs.
//
// Tested by   tests/codec/{plain,scaled}_test.cpp, which run the laws
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/config.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <concepts>

namespace decant::inline DECANT_ABI::simd {
struct Lanes;     // simd/lanes.hpp
struct IntLanes;  // simd/int8_lanes.hpp
}  // namespace decant::inline DECANT_ABI::simd

namespace decant::inline DECANT_ABI::codec {

inline constexpr Index kLargestPack = 2;

template <class C>
concept StoresOne = C::kPack == 1 && requires(float value, typename C::Cell cell) {
  { C::store(value) } noexcept -> std::same_as<typename C::Cell>;
  { C::load(cell) } noexcept -> std::same_as<float>;
};

// Two values a cell; load() gives either, 0 or 1.
template <class C>
concept StoresTwo = C::kPack == 2 && C::kInterleave == 1 &&
                    requires(float value, typename C::Cell cell, Index part) {
                      { C::store(value, value) } noexcept -> std::same_as<typename C::Cell>;
                      { C::load(cell, part) } noexcept -> std::same_as<float>;
                    };

// A scaled codec stores values divided by a scale, so that none exceeds kLargest. A row has one
// scale, or one for every kGroup values if kGroup is not 0. Other codecs store values as they are.
//
// Laws     store(load(cell)) is cell for every cell that store() gives: a copied row does not drift
//          widen<k>(cells) gives value k of every lane as load() gives it: with one value a cell
//          that of lane n is cells[n * kInterleave + k], with two it is value k of cells[n]
template <class C>
concept Codec = (StoresOne<C> || StoresTwo<C>) && requires {
  { C::kType } -> std::convertible_to<Type>;
  { C::kInterleave } -> std::convertible_to<Index>;
  { C::kScaled } -> std::convertible_to<bool>;
  { C::kGroup } -> std::convertible_to<Index>;
  requires(!C::kScaled) || requires { C::kLargest; };
  {
    &C::template widen<C::kInterleave * C::kPack - 1>
  } -> std::convertible_to<simd::Lanes (*)(const typename C::Cell*) noexcept>;
};

// One whose values are integers of a size up to 128, and which gives two values of every lane, and
// so two columns of a panel, as the int16 halves of a word: of a run of 16 cells if a cell holds
// both, else of two runs.
template <class C>
concept IntegerCodec = Codec<C> && C::kScaled && C::kInterleave == 1 && requires {
  { &C::widen_int16 } -> std::convertible_to<simd::IntLanes (*)(const typename C::Cell*) noexcept>;
};

// The cell of value(0) and, if it holds two, value(1); and one of its values.
template <Codec C, class F>
DECANT_ALWAYS_INLINE typename C::Cell store(F&& value) noexcept {
  if constexpr (C::kPack == 1) {
    return C::store(value(Index{0}));
  } else {
    return C::store(value(Index{0}), value(Index{1}));
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

// How many scales a row of `size` values has.
template <Codec C>
constexpr Index scales_of_row(Index size) noexcept {
  if (!C::kScaled) return 0;
  return C::kGroup == 0 ? 1 : ceil_div(size, std::max<Index>(1, C::kGroup));
}

}  // namespace decant::inline DECANT_ABI::codec
