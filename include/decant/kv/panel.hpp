// decant/kv/panel.hpp - the memory layout of 16 consecutive tokens of one layer and head.
//
// Every store cuts its memory into these panels, and attention reads them from front to back.
//
//   scales   [scales of a row][16 tokens] of keys, in f32, if the codec has scales
//   keys     [cells of a row / p][16 tokens][p]          lanes run over tokens
//   scales   likewise of values
//   values   [16 tokens / p][value_lanes / pack][p]      lanes run over dimensions
//
// p is a codec's interleave and pack the elements of a cell; value_lanes is value_dim rounded up to
// 16 * pack. There is no padding if key_dim is a multiple of p * pack and value_dim of 16 * pack,
// as in all large published models.
//
// Tested by   tests/kv/{panel,rows}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// A key or a value in its stored form, outside of a panel.
//
// Shape    cells is [cells of a row], scales is [scales of a row]
template <codec::Codec C>
struct StoredRow {
  std::span<typename C::Cell> cells;
  std::span<float> scales;
};

// The keys of a panel, or its values: where they begin, and how a row is written and read.
//
// Shape    slot is in [0, 16); Cells is KeyCells<C> or ValueCells<C>
// Threads  puts into different slots of one panel may run at once
template <codec::Codec C, class Cells>
class PanelRows {
  static_assert(C::kPack == 1 || C::kGroup == kLanes * C::kPack,
                "cells of several elements hold those of one group");

 public:
  using Cell = typename C::Cell;

  constexpr PanelRows(Index dim, Index offset)
      : cells_{dim},
        dim_(dim),
        scales_at_(offset),
        cells_at_(offset + codec::scales_of_row<C>(dim) * kPanelTokens * Index{sizeof(float)}) {}

  const Cell* cells(const std::byte* panel) const noexcept {
    return reinterpret_cast<const Cell*>(panel + cells_at_);
  }
  // Null if the codec has none.
  const float* scales(const std::byte* panel) const noexcept {
    return C::kScaled ? reinterpret_cast<const float*>(panel + scales_at_) : nullptr;
  }

  void put(std::byte* panel, Index slot, std::span<const float> row) const noexcept {
    for (Index begin = 0; begin < dim_; begin += group()) {
      const auto count = static_cast<std::size_t>(std::min(group(), dim_ - begin));
      const float inverse = put_scale(panel, slot, begin / group(),
                                      row.subspan(static_cast<std::size_t>(begin), count));
      const Index end = std::min(cells_.of_row(), (begin + group()) / C::kPack);
      for (Index cell = begin / C::kPack; cell < end; ++cell) {
        mutable_cells(panel)[cells_.at(slot, cell)] = codec::store<C>([&](Index part) {
          const Index at = cells_.element(cell, part);
          return C::kPack == 1 || at < dim_ ? row.data()[at] * inverse : 0.0f;
        });
      }
    }
  }

  void get(const std::byte* panel, Index slot, std::span<float> row) const noexcept {
    for (Index cell = 0; cell < cells_.of_row(); ++cell) {
      const Cell stored = cells(panel)[cells_.at(slot, cell)];
      for (Index part = 0; part < C::kPack; ++part) {
        const Index at = cells_.element(cell, part);
        if (at < dim_) row.data()[at] = codec::load<C>(stored, part) * scale(panel, slot, at);
      }
    }
  }

  // In debug mode, fills a row with NaN.
  void spoil([[maybe_unused]] std::byte* panel, [[maybe_unused]] Index slot) const noexcept {
    if constexpr (kDebugStores) {
      for (Index cell = 0; cell < cells_.of_row(); ++cell) {
        debug::spoil(mutable_cells(panel) + cells_.at(slot, cell), Index{sizeof(Cell)});
      }
      for (Index at = 0; at < codec::scales_of_row<C>(dim_); ++at) {
        debug::spoil(mutable_scales(panel) + at * kPanelTokens + slot, Index{sizeof(float)});
      }
    }
  }

  // A row in its stored form: copied out and in again it is the same row, bit for bit.
  void get_stored(const std::byte* panel, Index slot, const StoredRow<C>& row) const noexcept {
    for (Index cell = 0; cell < cells_.of_row(); ++cell) {
      row.cells.data()[cell] = cells(panel)[cells_.at(slot, cell)];
    }
    for (Index at = 0; at < std::ssize(row.scales); ++at) {
      row.scales.data()[at] = scales(panel)[at * kPanelTokens + slot];
    }
  }
  void put_stored(std::byte* panel, Index slot, const StoredRow<C>& row) const noexcept {
    for (Index cell = 0; cell < cells_.of_row(); ++cell) {
      mutable_cells(panel)[cells_.at(slot, cell)] = row.cells.data()[cell];
    }
    for (Index at = 0; at < std::ssize(row.scales); ++at) {
      mutable_scales(panel)[at * kPanelTokens + slot] = row.scales.data()[at];
    }
  }

 private:
  // How many elements share a scale; all of a row if it has one scale or none.
  constexpr Index group() const noexcept { return C::kGroup > 0 ? C::kGroup : dim_; }

  Cell* mutable_cells(std::byte* panel) const noexcept {
    return reinterpret_cast<Cell*>(panel + cells_at_);
  }
  float* mutable_scales(std::byte* panel) const noexcept {
    return reinterpret_cast<float*>(panel + scales_at_);
  }

  // The scale of element `at` of a row.
  float scale(const std::byte* panel, Index slot, Index at) const noexcept {
    if constexpr (!C::kScaled) return 1.0f;
    return scales(panel)[at / group() * kPanelTokens + slot];
  }
  // Stores the scale of a group and gives the factor for its elements.
  float put_scale(std::byte* panel, Index slot, Index index,
                  std::span<const float> values) const noexcept {
    if constexpr (!C::kScaled) return 1.0f;
    const float scale = codec::scale_of<C>(values);
    mutable_scales(panel)[index * kPanelTokens + slot] = scale;
    return scale == 0.0f ? 0.0f : 1.0f / scale;
  }

  Cells cells_;
  Index dim_;
  Index scales_at_, cells_at_;
};

// Where the parts of a panel begin, and how a token is written and read.
//
// Shape    key is [key_dim], value is [value_dim]; slot is in [0, 16)
// Threads  puts into different slots of one panel may run at once
template <codec::Codec K, codec::Codec V = K>
class PanelLayout {
 public:
  explicit constexpr PanelLayout(const Geometry& geometry)
      : keys_(geometry.key_dim, 0),
        values_(geometry.value_dim, geometry.key_panel_bytes<K>()),
        bytes_(geometry.panel_bytes<K, V>()) {}

  constexpr Index bytes() const noexcept { return bytes_; }
  constexpr const PanelRows<K, KeyCells<K>>& keys() const noexcept { return keys_; }
  constexpr const PanelRows<V, ValueCells<V>>& values() const noexcept { return values_; }

  void put(std::byte* panel, Index slot, std::span<const float> key,
           std::span<const float> value) const noexcept {
    keys_.put(panel, slot, key);
    values_.put(panel, slot, value);
  }
  void get(const std::byte* panel, Index slot, std::span<float> key,
           std::span<float> value) const noexcept {
    keys_.get(panel, slot, key);
    values_.get(panel, slot, value);
  }
  void spoil(std::byte* panel, Index slot) const noexcept {
    keys_.spoil(panel, slot);
    values_.spoil(panel, slot);
  }

 private:
  PanelRows<K, KeyCells<K>> keys_;
  PanelRows<V, ValueCells<V>> values_;
  Index bytes_;
};

}  // namespace decant::inline DECANT_ABI::kv
