// decant/snapshots/detail/snapshot_format.hpp - which tensors a saved sequence is made of.
//
//   tokens               I32 [end]
//   layers.N.keys        [heads, tokens held, key_dim], likewise layers.N.values
//   layers.N.key_scales  F32 [heads, tokens held] where the format has them, likewise value_scales
//
// The cells of int4 are bytes of two elements, U8 [heads, tokens held, bytes of a row]
// (kv/cells.hpp says which elements share a byte). If a row has several scales they are
// [heads, tokens held, scales of a row].
//
// Held are the last tokens of the sequence and, if a ring has dropped tokens between, the attention
// sink tokens at its beginning.
//
// A row is its cells times its scale; fp8_e4m3 counts in units of 2^-8.
//
// Tested by   tests/snapshots/{snapshot,snapshot_fields}_test.cpp
#pragma once

#include <decant/codec/scaled.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots::detail {

inline constexpr std::string_view kSnapshot = "decant snapshot";
inline constexpr std::string_view kSnapshotVersion = "1";

// What a row of keys or of values is made of, in some format.
struct RowSize {
  Index cells = 0;
  Index scales = 0;
};
RowSize key_size(codec::Type type, const kv::Geometry& geometry);
RowSize value_size(codec::Type type, const kv::Geometry& geometry);

// Rows of keys, or of values, of one layer and head, as they lie in a file.
template <codec::Codec C>
struct Rows {
  RowSize size;
  std::vector<typename C::Cell> cells;
  std::vector<float> scales;

  Rows(const RowSize& row, Index tokens)
      : size(row),
        cells(static_cast<std::size_t>(tokens * row.cells)),
        scales(static_cast<std::size_t>(tokens * row.scales)) {}

  kv::StoredRow<C> row(Index token) {
    return {std::span(cells).subspan(static_cast<std::size_t>(token * size.cells),
                                     static_cast<std::size_t>(size.cells)),
            std::span(scales).subspan(static_cast<std::size_t>(token * size.scales),
                                      static_cast<std::size_t>(size.scales))};
  }
};

// The keys and the values of some tokens.
template <kv::Store S>
struct HeadRows {
  Rows<typename S::Keys> keys;
  Rows<typename S::Values> values;

  HeadRows(const kv::Geometry& geometry, Index tokens)
      : keys(key_size(S::Keys::kType, geometry), tokens),
        values(value_size(S::Values::kType, geometry), tokens) {}
};

// The positions that a layer holds: [begin, end), and before a gap [0, sink_tokens).
struct Held {
  Position begin = 0;
  Position end = 0;
  Index sink_tokens = 0;

  Index tokens() const noexcept { return sink_tokens + end - begin; }
  // Where among those the row of a position lies; nothing for one in the gap.
  std::optional<Index> place(Position at) const noexcept {
    if (at >= begin) return sink_tokens + at - begin;
    return at < sink_tokens ? std::optional(at) : std::nullopt;
  }
};

template <kv::Store S>
Held held_by(const S& store, Index layer) {
  const Position begin = store.begin(layer);
  return begin > store.sink_tokens() ? Held{begin, store.end(), store.sink_tokens()}
                                     : Held{0, store.end(), 0};
}

template <kv::Store S>
HeadRows<S> rows_of(const S& store, Index layer, Index head) {
  const kv::Geometry geometry = store.geometry();
  const kv::PanelLayout<typename S::Keys, typename S::Values> layout(geometry);
  const Held held = held_by(store, layer);
  HeadRows<S> rows(geometry, held.tokens());
  for (const kv::PanelSpan& span : store.panel_spans(layer, head)) {
    for (Position at = span.first; at < std::min(store.end(), span.end()); ++at) {
      const std::optional<Index> token = held.place(at);
      if (!token) continue;
      const Index slot = at % kv::kPanelTokens;
      layout.keys().get_stored(span.panel(at), slot, rows.keys.row(*token));
      layout.values().get_stored(span.panel(at), slot, rows.values.row(*token));
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
  template <kv::Store S>
  void read(Index head, Index token, HeadRows<S>& row) const {
    const auto number = static_cast<std::size_t>(head * held.tokens() + token);
    const auto copy = [number](std::span<const std::byte> rows, auto& to) {
      const std::size_t bytes = std::as_bytes(std::span(to)).size();
      if (bytes > 0) std::memcpy(to.data(), rows.data() + number * bytes, bytes);
    };
    copy(keys, row.keys.cells);
    copy(key_scales, row.keys.scales);
    copy(values, row.values.cells);
    copy(value_scales, row.values.scales);
  }
};

// What a snapshot says of a store, and asks of one.
struct StoreShape {
  kv::Geometry geometry;
  codec::Type keys = codec::Type::f32, values = codec::Type::f32;
  Index capacity = 0;
  Position end = 0;
  Index sink_tokens = 0;
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
                      .sink_tokens = store.sink_tokens(),
                      .layers = {},
                      .windows = {}};
  for (Index layer = 0; layer < shape.geometry.layers; ++layer) {
    shape.layers.push_back(held_by(store, layer));
    shape.windows.push_back(store.window(layer));
  }
  return shape;
}

// The header of a snapshot's file; entries are in the order in which they are written.
files::SealedWriter::Metadata metadata_of(const StoreShape& shape, std::string_view format,
                                          std::string_view model);
std::vector<files::SealedWriter::Entry> entries_of(const StoreShape& shape);

// Writes the rows of a store, in the order of entries_of().
template <kv::Store S>
void write_rows(files::SealedWriter& writer, const S& store) {
  const kv::Geometry geometry = store.geometry();
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    std::vector<HeadRows<S>> heads;
    for (Index head = 0; head < geometry.heads; ++head) {
      heads.push_back(rows_of(store, layer, head));
    }
    const auto write = [&](auto part, auto values) {
      for (const HeadRows<S>& rows : heads) {
        writer.write(std::as_bytes(std::span(rows.*part.*values)));
      }
    };
    write(&HeadRows<S>::keys, &Rows<typename S::Keys>::cells);
    write(&HeadRows<S>::values, &Rows<typename S::Values>::cells);
    write(&HeadRows<S>::keys, &Rows<typename S::Keys>::scales);
    write(&HeadRows<S>::values, &Rows<typename S::Values>::scales);
  }
}

}  // namespace decant::inline DECANT_ABI::snapshots::detail
