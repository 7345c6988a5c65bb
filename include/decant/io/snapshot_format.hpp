// decant/io/snapshot_format.hpp - which tensors a saved sequence is made of.
//
//   tokens               I32 [end]
//   layers.N.keys        [heads, tokens held, key_dim], likewise layers.N.values
//   layers.N.key_scales  F32 [heads, tokens held] where the format has them, likewise value_scales
//
// Held are the last tokens of the sequence, and before them those that the store keeps from its
// beginning, where there is a gap.
//
// A row is its cells times its scale; fp8_e4m3 counts in units of 2^-8.
//
// Depends on  io/sealed_tensors.hpp, kv/{block,panel}.hpp
// Tested by   tests/io/snapshot_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/io/sealed_tensors.hpp>
#include <decant/kv/block.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::io {

namespace detail {

inline constexpr std::string_view kSnapshot = "decant snapshot";
inline constexpr std::string_view kSnapshotVersion = "1";

// How safetensors calls the cells of a format.
constexpr std::string_view cell_dtype(codec::Type type) noexcept {
  switch (type) {
    case codec::Type::bf16:
      return "BF16";
    case codec::Type::f16:
      return "F16";
    case codec::Type::int8:
      return "I8";
    case codec::Type::fp8_e4m3:
      return "F8_E4M3";
    case codec::Type::fp8_e5m2:
      return "F8_E5M2";
    default:
      return "F32";
  }
}

inline std::string layer_name(Index layer, std::string_view part) {
  return sentence("layers.", layer, ".", part);
}

// The tokens of one layer and head, as they lie in a file.
template <codec::Codec K, codec::Codec V>
struct Rows {
  std::vector<typename K::Cell> keys;
  std::vector<typename V::Cell> values;
  std::vector<float> key_scales, value_scales;

  Rows(const kv::Geometry& geometry, Index tokens)
      : keys(static_cast<std::size_t>(tokens * geometry.key_dim)),
        values(static_cast<std::size_t>(tokens * geometry.value_dim)),
        key_scales(static_cast<std::size_t>(tokens)),
        value_scales(static_cast<std::size_t>(tokens)) {}

  std::span<typename K::Cell> key(Index token, Index dim) {
    return std::span(keys).subspan(static_cast<std::size_t>(token * dim),
                                   static_cast<std::size_t>(dim));
  }
  std::span<typename V::Cell> value(Index token, Index dim) {
    return std::span(values).subspan(static_cast<std::size_t>(token * dim),
                                     static_cast<std::size_t>(dim));
  }
};

// One of them.
template <codec::Codec K, codec::Codec V>
struct Row {
  std::vector<typename K::Cell> key;
  std::vector<typename V::Cell> value;
  kv::PanelScales scales;

  explicit Row(const kv::Geometry& geometry)
      : key(static_cast<std::size_t>(geometry.key_dim)),
        value(static_cast<std::size_t>(geometry.value_dim)) {}
};

// The positions that a layer holds: [begin, end), and before a gap [0, kept).
struct Held {
  Position begin = 0;
  Position end = 0;
  Index kept = 0;

  Index tokens() const noexcept { return kept + end - begin; }
  // Where among those the row of a position lies; nothing for one in the gap.
  std::optional<Index> place(Position at) const noexcept {
    if (at >= begin) return kept + at - begin;
    return at < kept ? std::optional(at) : std::nullopt;
  }
};

template <kv::Store S>
Held held_by(const S& store, Index layer) {
  const Position begin = store.begin(layer);
  return begin > store.kept() ? Held{begin, store.end(), store.kept()} : Held{0, store.end(), 0};
}

template <kv::Store S>
Rows<typename S::Keys, typename S::Values> rows_of(const S& store, Index layer, Index head) {
  const kv::Geometry geometry = store.geometry();
  const kv::PanelLayout<typename S::Keys, typename S::Values> layout(geometry);
  const Held held = held_by(store, layer);
  Rows<typename S::Keys, typename S::Values> rows(geometry, held.tokens());
  for (const kv::Block& block : store.blocks(layer, head)) {
    for (Position at = block.first; at < std::min(store.end(), block.end()); ++at) {
      const std::optional<Index> token = held.place(at);
      if (!token) continue;
      const auto scales = layout.get_cells(block.panel(at), at % kv::kPanelTokens,
                                           rows.key(*token, geometry.key_dim),
                                           rows.value(*token, geometry.value_dim));
      rows.key_scales[static_cast<std::size_t>(*token)] = scales.key;
      rows.value_scales[static_cast<std::size_t>(*token)] = scales.value;
    }
  }
  return rows;
}

// A layer as it lies in a file: rows of all heads, one head behind the other.
struct SavedLayer {
  Held held;
  std::span<const std::byte> keys, values;
  std::span<const std::byte> key_scales, value_scales;  // none where the format has none

  // Row `token` of those that a head holds.
  template <codec::Codec K, codec::Codec V>
  void read(Index head, Index token, Row<K, V>& row) const {
    const auto number = static_cast<std::size_t>(head * held.tokens() + token);
    const auto copy = [number](std::span<const std::byte> rows, auto to) {
      std::memcpy(to.data(), rows.data() + number * to.size_bytes(), to.size_bytes());
    };
    copy(keys, std::span(row.key));
    copy(values, std::span(row.value));
    if constexpr (K::kScaled) copy(key_scales, std::span(&row.scales.key, 1));
    if constexpr (V::kScaled) copy(value_scales, std::span(&row.scales.value, 1));
  }
};

// What a snapshot says of a store, and asks of one.
struct StoreShape {
  kv::Geometry geometry;
  codec::Type keys = codec::Type::f32, values = codec::Type::f32;
  Index capacity = 0;
  Position end = 0;
  Index kept = 0;
  std::vector<Held> layers;
  std::vector<Index> windows;
};

template <kv::Store S>
StoreShape shape_of(const S& store) {
  StoreShape shape = {.geometry = store.geometry(),
                      .keys = S::Keys::kType,
                      .values = S::Values::kType,
                      .capacity = store.capacity(),
                      .end = store.end(),
                      .kept = store.kept(),
                      .layers = {},
                      .windows = {}};
  for (Index layer = 0; layer < shape.geometry.layers; ++layer) {
    shape.layers.push_back(held_by(store, layer));
    shape.windows.push_back(store.window(layer));
  }
  return shape;
}

inline std::string text_of(const kv::Geometry& geometry) {
  return sentence(geometry.layers, " layers, ", geometry.heads, " heads, keys of ",
                  geometry.key_dim, ", values of ", geometry.value_dim);
}

inline SealedWriter::Metadata metadata_of(const StoreShape& shape, std::string_view format,
                                          std::string_view model) {
  return {{"format", std::string(format)},
          {"version", std::string(kSnapshotVersion)},
          {"model", std::string(model)},
          {"layers", std::to_string(shape.geometry.layers)},
          {"heads", std::to_string(shape.geometry.heads)},
          {"key_dim", std::to_string(shape.geometry.key_dim)},
          {"value_dim", std::to_string(shape.geometry.value_dim)},
          {"keys", std::string(codec::name(shape.keys))},
          {"values", std::string(codec::name(shape.values))},
          {"kept", std::to_string(shape.kept)}};
}

// In the order in which they are written.
inline std::vector<SealedWriter::Entry> entries_of(const StoreShape& shape) {
  const kv::Geometry& geometry = shape.geometry;
  std::vector<SealedWriter::Entry> entries = {{"tokens", "I32", {shape.end}}};
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    const Index tokens = shape.layers[static_cast<std::size_t>(layer)].tokens();
    const auto add = [&](std::string_view part, std::string_view dtype,
                         std::vector<Index> extents) {
      entries.push_back({layer_name(layer, part), dtype, std::move(extents)});
    };
    add("keys", cell_dtype(shape.keys), {geometry.heads, tokens, geometry.key_dim});
    add("values", cell_dtype(shape.values), {geometry.heads, tokens, geometry.value_dim});
    if (codec::is_scaled(shape.keys)) add("key_scales", "F32", {geometry.heads, tokens});
    if (codec::is_scaled(shape.values)) add("value_scales", "F32", {geometry.heads, tokens});
  }
  return entries;
}

// Writes the rows of a store, in the order of entries_of().
template <kv::Store S>
void write_rows(SealedWriter& writer, const S& store) {
  using Rows = Rows<typename S::Keys, typename S::Values>;
  const kv::Geometry geometry = store.geometry();
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    std::vector<Rows> heads;
    for (Index head = 0; head < geometry.heads; ++head) {
      heads.push_back(rows_of(store, layer, head));
    }
    const auto write = [&](auto part) {
      for (const Rows& rows : heads) writer.write(std::as_bytes(std::span(rows.*part)));
    };
    write(&Rows::keys);
    write(&Rows::values);
    if (S::Keys::kScaled) write(&Rows::key_scales);
    if (S::Values::kScaled) write(&Rows::value_scales);
  }
}

}  // namespace detail

}  // namespace decant::inline v0::io
