// decant/kv/cells.hpp - the layout of a row's cells in a panel of 16 tokens.
//
// A cell holds kPack elements of one row, so that writing a row touches no other. Two elements of a
// key in one cell are neighbours; two of a value are 16 dimensions apart, each in a lane of its own
// run of 16.
//
// Tested by   tests/kv/{panel,rows}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <algorithm>

namespace decant::inline DECANT_ABI::kv {

inline constexpr Index kPanelTokens = 16;

// Keys: [ceil(cells of a row / p)][16 tokens][p], p = kInterleave; lanes run over tokens.
//
// Errors   std::invalid_argument if a panel's cells do not fit in 63 bits
template <codec::Codec C>
struct KeyCells {
  Index dim = 0;  // elements of a row

  constexpr Index of_row() const noexcept { return ceil_div(dim, C::kPack); }
  constexpr Index of_panel() const {
    return checked_product(round_up(of_row(), C::kInterleave), kPanelTokens);
  }
  constexpr Index at(Index slot, Index cell) const noexcept {
    constexpr Index p = C::kInterleave;
    return (cell / p * kPanelTokens + slot) * p + cell % p;
  }
  // The index in the row of element `part` of a cell; it may be beyond `dim`.
  constexpr Index element(Index cell, Index part) const noexcept { return cell * C::kPack + part; }
};

// Values: [16 tokens / p][lanes / kPack][p]; lanes run over dimensions.
//
// Errors   as for keys
template <codec::Codec C>
struct ValueCells {
  Index dim = 0;

  // The dimensions, rounded up to whole runs of lanes.
  constexpr Index lanes() const { return round_up(dim, kLanes * C::kPack); }
  constexpr Index of_row() const noexcept {
    constexpr Index run = kLanes * C::kPack;
    return dim / run * kLanes + std::min<Index>(dim % run, kLanes);
  }
  constexpr Index of_panel() const { return checked_product(lanes() / C::kPack, kPanelTokens); }
  constexpr Index at(Index slot, Index cell) const noexcept {
    constexpr Index p = C::kInterleave;
    return (slot / p * (lanes() / C::kPack) + cell) * p + slot % p;
  }
  constexpr Index element(Index cell, Index part) const noexcept {
    return (cell / kLanes * C::kPack + part) * kLanes + cell % kLanes;
  }
};

}  // namespace decant::inline DECANT_ABI::kv
