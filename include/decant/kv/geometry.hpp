// decant/kv/geometry.hpp - what one token costs, and how panels of 16 tokens are laid out.
//
// Memory is arithmetic: everything here is constexpr, and bytes() is what a store allocates, to
// the byte. Of one layer and head, 16 consecutive tokens form a key panel and, beside it, a value
// panel, so that attention reads one head as a single linear run.
//
//   key panel    [ceil(key_dim / p)][16 tokens][p]     lanes run over tokens
//   value panel  [16 / p][value_lanes][p]              lanes run over dimensions
//
// p is the codec's interleave; value_lanes is value_dim rounded up to 16. Where key_dim is a
// multiple of p and value_dim of 16, as in every published model of size, nothing is padding.
//
// Depends on  codec/concept.hpp, core/shape.hpp
// Tested by   tests/kv/geometry_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

namespace decant::inline v0::kv {

inline constexpr Index kPanelTokens = 16;

// The shape of the keys and values of a sequence, whatever store holds them.
//
// Shape    per token: [layers][heads] keys of key_dim and values of value_dim
// Errors   std::invalid_argument where a product does not fit in 63 bits
struct Geometry {
  Index layers = 0;
  Index heads = 0;      // key and value heads, not query heads
  Index key_dim = 0;    // numbers in a key
  Index value_dim = 0;  // numbers in a value

  constexpr Index cells_per_token() const {
    return checked_product({layers, heads, checked_sum(key_dim, value_dim)});
  }
  // What the numbers of `tokens` tokens take, without the padding of a last panel.
  constexpr Index payload_bytes(Index tokens, Index cell_bytes) const {
    return checked_product({cells_per_token(), tokens, cell_bytes});
  }
  constexpr Index key_panel_cells(Index interleave) const {
    return checked_product(round_up(key_dim, interleave), kPanelTokens);
  }
  constexpr Index value_panel_cells() const {
    return checked_product(round_up(value_dim, kPanelTokens), kPanelTokens);
  }
  constexpr Index panel_cells(Index interleave) const {
    return checked_sum(key_panel_cells(interleave), value_panel_cells());
  }

  // What a store of `tokens` tokens allocates: whole panels of every layer and head.
  template <codec::Codec C>
  constexpr Index bytes(Index tokens) const {
    return checked_product({layers, heads, round_up(tokens, kPanelTokens) / kPanelTokens,
                            panel_cells(C::kInterleave), Index{sizeof(typename C::Cell)}});
  }

  friend constexpr bool operator==(const Geometry&, const Geometry&) = default;
};

}  // namespace decant::inline v0::kv
