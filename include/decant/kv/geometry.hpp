// decant/kv/geometry.hpp - what one token costs, and how panels of 16 tokens are laid out.
//
// Memory is arithmetic: everything here is constexpr, and bytes() is what a store allocates, to
// the byte. Of one layer and head, 16 consecutive tokens form a panel (kv/panel.hpp draws it).
//
// Depends on  codec/concept.hpp, core/shape.hpp
// Tested by   tests/kv/geometry_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <string_view>

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
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index payload_bytes(Index tokens) const {
    constexpr Index kScale = sizeof(float);
    const Index key = checked_sum(checked_product(key_dim, Index{sizeof(typename K::Cell)}),
                                  K::kScaled ? kScale : 0);
    const Index value = checked_sum(checked_product(value_dim, Index{sizeof(typename V::Cell)}),
                                    V::kScaled ? kScale : 0);
    return checked_product({layers, heads, tokens, checked_sum(key, value)});
  }

  // What the parts of a panel take: keys, values, and the scales of either.
  template <codec::Codec K>
  constexpr Index key_panel_bytes() const {
    return checked_product(
        {round_up(key_dim, K::kInterleave), kPanelTokens, Index{sizeof(typename K::Cell)}});
  }
  template <codec::Codec V>
  constexpr Index value_panel_bytes() const {
    return checked_product(
        {round_up(value_dim, kPanelTokens), kPanelTokens, Index{sizeof(typename V::Cell)}});
  }
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index panel_bytes() const {
    constexpr Index kScales = (K::kScaled ? kPanelTokens : 0) + (V::kScaled ? kPanelTokens : 0);
    return checked_sum(checked_sum(key_panel_bytes<K>(), value_panel_bytes<V>()),
                       kScales * Index{sizeof(float)});
  }

  // What a store of `tokens` tokens allocates: whole panels of every layer and head.
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index bytes(Index tokens) const {
    return checked_product(
        {layers, heads, round_up(tokens, kPanelTokens) / kPanelTokens, panel_bytes<K, V>()});
  }

  friend constexpr bool operator==(const Geometry&, const Geometry&) = default;
};

// Refuses a shape without layers, heads or numbers, in the name of `who`.
//
// Errors   std::invalid_argument
inline void check(const Geometry& geometry, std::string_view who) {
  expects(
      geometry.layers > 0 && geometry.heads > 0 && geometry.key_dim > 0 && geometry.value_dim > 0,
      who, ": empty geometry of ", geometry.layers, " layers, ", geometry.heads, " heads, keys of ",
      geometry.key_dim, ", values of ", geometry.value_dim);
}

// Refuses to read a row where there is none, or into another shape.
//
// Errors   std::invalid_argument
inline void check_place(const Geometry& geometry, Index layer, Index head, std::size_t key_size,
                        std::size_t value_size, std::string_view who) {
  expects(layer >= 0 && layer < geometry.layers && head >= 0 && head < geometry.heads &&
              static_cast<Index>(key_size) == geometry.key_dim &&
              static_cast<Index>(value_size) == geometry.value_dim,
          who, ": layer ", layer, ", head ", head, ", key of ", key_size, ", value of ",
          value_size);
}

}  // namespace decant::inline v0::kv
