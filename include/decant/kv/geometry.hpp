// decant/kv/geometry.hpp - the bytes of a token and the layout of panels of 16 tokens.
//
// Memory is arithmetic: everything here is constexpr, and bytes() is what a store allocates, to
// the byte. Of one layer and head, 16 consecutive tokens form a panel (kv/panel.hpp draws it).
//
// Tested by   tests/kv/geometry_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/cells.hpp>

#include <cstddef>
#include <string_view>

namespace decant::inline DECANT_ABI::kv {

// The shape of the keys and values of a sequence, whatever store holds them.
//
// Shape    per token: [layers][heads] keys of key_dim and values of value_dim
// Errors   std::invalid_argument if a product does not fit in 63 bits
struct Geometry {
  Index layers = 0;
  Index heads = 0;      // key and value heads, not query heads
  Index key_dim = 0;    // elements of a key
  Index value_dim = 0;  // elements of a value

  constexpr Index cells_per_token() const {
    return checked_product({layers, heads, checked_sum(key_dim, value_dim)});
  }
  // Bytes of the cells and scales of `tokens` tokens, without the padding of a last panel.
  constexpr Index payload_bytes(Index tokens, Index cell_bytes) const {
    return checked_product({cells_per_token(), tokens, cell_bytes});
  }
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index payload_bytes(Index tokens) const {
    const Index key = part_bytes<K>(KeyCells<K>{key_dim}.of_row(), 1, key_dim);
    const Index value = part_bytes<V>(ValueCells<V>{value_dim}.of_row(), 1, value_dim);
    return checked_product({layers, heads, tokens, checked_sum(key, value)});
  }

  // Bytes of the parts of a panel, each with its scales.
  template <codec::Codec K>
  constexpr Index key_panel_bytes() const {
    return part_bytes<K>(KeyCells<K>{key_dim}.of_panel(), kPanelTokens, key_dim);
  }
  template <codec::Codec V>
  constexpr Index value_panel_bytes() const {
    return part_bytes<V>(ValueCells<V>{value_dim}.of_panel(), kPanelTokens, value_dim);
  }
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index panel_bytes() const {
    return checked_sum(key_panel_bytes<K>(), value_panel_bytes<V>());
  }

  // Bytes that a store of `tokens` tokens allocates: whole panels of every layer and head.
  template <codec::Codec K, codec::Codec V = K>
  constexpr Index bytes(Index tokens) const {
    return checked_product(
        {layers, heads, round_up(tokens, kPanelTokens) / kPanelTokens, panel_bytes<K, V>()});
  }

  friend constexpr bool operator==(const Geometry&, const Geometry&) = default;

 private:
  // Cells, and the scales of `tokens` rows of `dim` elements.
  template <codec::Codec C>
  static constexpr Index part_bytes(Index cells, Index tokens, Index dim) {
    return checked_sum(
        checked_product(cells, Index{sizeof(typename C::Cell)}),
        checked_product({codec::scales_of_row<C>(dim), tokens, Index{sizeof(float)}}));
  }
};

// Refuses a shape without layers, heads or elements; the sentence begins with `who`.
//
// Errors   std::invalid_argument
inline void check(const Geometry& geometry, std::string_view who) {
  expects(
      geometry.layers > 0 && geometry.heads > 0 && geometry.key_dim > 0 && geometry.value_dim > 0,
      who, ": empty geometry of ", geometry.layers, " layers, ", geometry.heads, " heads, keys of ",
      geometry.key_dim, ", values of ", geometry.value_dim);
}

// Refuses to read a row that does not exist, or into a span of another size.
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

}  // namespace decant::inline DECANT_ABI::kv
