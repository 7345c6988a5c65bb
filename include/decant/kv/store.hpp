// decant/kv/store.hpp - the concept of a store (the KV cache of one sequence), and the panels that
// it hands out.
//
// Tested by   tests/kv/contiguous_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// Consecutive panels of one layer and head, as attention reads them.
//
// Shape    tokens / 16 panels, one behind the other, of `panel_bytes` each (kv/panel.hpp)
// Units    first and tokens count tokens and are multiples of 16
struct PanelSpan {
  Position first = 0;
  Index tokens = 0;
  const std::byte* panels = nullptr;
  Index panel_bytes = 0;

  Position end() const noexcept { return first + tokens; }

  // The panel that holds position `at`, which lies in [first, end()).
  const std::byte* panel(Position at) const noexcept {
    return panels + (at - first) / kPanelTokens * panel_bytes;
  }
};

// In debug mode, fills the rows of some slots with NaN.
template <class S>
void spoil([[maybe_unused]] S& store, [[maybe_unused]] const Range& slots) noexcept {
  if constexpr (kDebugStores) {
    const Geometry geometry = store.geometry();
    const PanelLayout<typename S::Keys, typename S::Values> layout(geometry);
    for (Index layer = 0; layer < geometry.layers; ++layer) {
      for (Index head = 0; head < geometry.heads; ++head) {
        for (Position at = slots.begin; at < slots.end; ++at) {
          layout.spoil(store.panel(layer, head, at), at % kPanelTokens);
        }
      }
    }
  }
}

// Keys and values of one sequence. Rows are put into slots that reserve() made room for, and are
// held once they are published: positions [begin(layer), end()), and those of [0, sink_tokens()).
//
// Laws     put(position) is allowed for positions in [end(), end() + reserved)
//          put does not throw; puts of different (layer, head, position) may run at once
//          panel(layer, head, position) is the panel that put() writes to, in slot position % 16
//          publish(n) of reserved rows moves end() by n and does not throw
//          rewind(p), for p in [earliest_rewind(), end()], moves end() to p and releases reserved
//          slots that were not published
//          a row may see window(layer) tokens, itself included, or all of them if that is 0
//          reserve(n) is for n up to chunk(): the most tokens of one step
//          panel_spans(layer, head) ascend and cover every position held or put
template <class S>
concept Store = requires(S& store, const S& view, Index n, Position at, std::span<const float> row,
                         std::span<float> out) {
  requires codec::Codec<typename S::Keys> && codec::Codec<typename S::Values>;
  { view.geometry() } -> std::convertible_to<Geometry>;
  { view.begin(n) } -> std::convertible_to<Position>;
  { view.end() } -> std::convertible_to<Position>;
  { view.sink_tokens() } -> std::convertible_to<Index>;
  { view.capacity() } -> std::convertible_to<Index>;
  { view.bytes() } -> std::convertible_to<Index>;
  { view.earliest_rewind() } -> std::convertible_to<Position>;
  { view.window(n) } -> std::convertible_to<Index>;
  { view.chunk() } -> std::convertible_to<Index>;
  view.get(n, n, at, out, out);
  { view.panel_spans(n, n) } -> std::ranges::random_access_range;
  requires std::same_as<std::ranges::range_value_t<decltype(view.panel_spans(n, n))>, PanelSpan>;
  store.reserve(n);
  { store.panel(n, n, at) } noexcept -> std::same_as<std::byte*>;
  { store.put(n, n, at, row, row) } noexcept;
  { store.publish(n) } noexcept;
  store.rewind(at);
};

}  // namespace decant::inline DECANT_ABI::kv
