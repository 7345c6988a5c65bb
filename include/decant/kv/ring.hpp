// decant/kv/ring.hpp - a KV cache for sliding windows: keys and values of the last tokens of one
// sequence, in a ring of panels.
//
// If every layer sees at most a window of tokens, older tokens are never read again: their panels
// are overwritten, and memory does not grow with the sequence. A ring reports how far it can be
// rewound and refuses to go further. It can hold the first tokens beside the window, as attention
// sinks for models that were not trained with a window.
//
// Source      Beltagy et al. 2020, arXiv:2004.05150 (sliding windows); Xiao et al. 2023,
//             arXiv:2309.17453 (attention sinks)
// Tested by   tests/kv/ring_test.cpp, tests/law/stores_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/error.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/detail/panel_span_range.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// Move-only; a store that was moved from may only be destroyed or assigned to.
//
// Shape    memory is [layers][heads][panels]: those of the sink tokens, and behind them the ring,
//          in which positions wrap around
// Units    a window of W tokens is a token and the W - 1 before it; chunk is the most tokens of one
//          step; the first `sink_tokens` tokens stay beside the window
// Errors   std::invalid_argument, CacheFull (reserve), CannotRewind; std::bad_alloc from the
//          constructor; nothing changed then
// Cost     put O(key_dim + value_dim), everything else O(1); only the constructor allocates
// Threads  as kv::Contiguous
template <codec::Codec K, codec::Codec V = K>
class Ring {
 public:
  using Keys = K;
  using Values = V;

  Ring(const Geometry& geometry, Index window, Index chunk, Index sink_tokens = 0,
       std::pmr::memory_resource& memory = default_memory())
      : geometry_(geometry),
        layout_(geometry),
        window_(window),
        chunk_(chunk),
        sink_tokens_(sink_tokens),
        sink_panels_(ceil_div(sink_tokens, kPanelTokens)),
        panels_(panels_for(window, chunk)) {
    check(geometry, "kv::Ring");
    memory_ = Buffer<std::byte>(bytes_for(geometry, window, chunk, sink_tokens), memory);
    debug::spoil(memory_.data(), memory_.bytes());
  }

  // What a ring allocates, however long its sequence becomes.
  //
  // Errors   std::invalid_argument if window or chunk is not positive, or sink_tokens is negative
  static constexpr Index bytes_for(const Geometry& geometry, Index window, Index chunk,
                                   Index sink_tokens = 0) {
    expects(sink_tokens >= 0, "kv::Ring: ", sink_tokens, " sink tokens");
    const Index panels =
        checked_sum(panels_for(window, chunk), ceil_div(sink_tokens, kPanelTokens));
    return geometry.bytes<K, V>(checked_product(panels, kPanelTokens));
  }

  const Geometry& geometry() const noexcept { return geometry_; }
  Index window(Index) const noexcept { return window_; }
  Index chunk() const noexcept { return chunk_; }
  Index sink_tokens() const noexcept { return sink_tokens_; }
  Position begin(Index) const noexcept { return begin_; }
  Position end() const noexcept { return end_; }
  Index capacity() const noexcept { return std::numeric_limits<Index>::max() / 2; }
  Index bytes() const noexcept { return memory_.bytes(); }

  // The first position at which the next token would still see its whole window.
  Position earliest_rewind() const noexcept { return begin_ == 0 ? 0 : begin_ + window_ - 1; }

  // Reserves slots for `tokens` more; rows a window or more before them may be overwritten from now
  // on.
  //
  // Errors   CacheFull for more than a chunk, std::invalid_argument
  void reserve(Index tokens) {
    expects(tokens >= 0, "kv::Ring::reserve: ", tokens, " tokens");
    expects<CacheFull>(tokens <= chunk_, "kv::Ring: ", tokens,
                       " tokens in one step of a ring made for ", chunk_);
    reserved_ = end_ + tokens;
    const Index oldest = ceil_div(reserved_, kPanelTokens) - panels_;
    if (oldest > sink_panels_) begin_ = std::max(begin_, oldest * kPanelTokens);
    spoil(*this, {end_, reserved_});
  }

  // The panel of one head that `at` lies in. Preconditions: layer and head exist, `at` is held or
  // reserved.
  std::byte* panel(Index layer, Index head, Position at) noexcept {
    return memory_.data() + offset(layer, head, at);
  }

  // Stores the row of one head in its panel. Preconditions: those of panel(), and the shapes are as
  // said.
  //
  // Shape    key is [key_dim], value is [value_dim]
  void put(Index layer, Index head, Position at, std::span<const float> key,
           std::span<const float> value) noexcept {
    layout_.put(panel(layer, head, at), at % kPanelTokens, key, value);
  }

  // Reads back the row of one head, widened to f32.
  //
  // Shape    key is [key_dim], value is [value_dim]
  // Errors   std::invalid_argument when there is no such place or the shapes differ
  void get(Index layer, Index head, Position at, std::span<float> key,
           std::span<float> value) const {
    check_place(geometry_, layer, head, key.size(), value.size(), "kv::Ring::get");
    expects(at >= 0 && at < end_ && (at >= begin_ || at < sink_tokens_), "kv::Ring::get: position ",
            at, " is not in [", begin_, ", ", end_, ")");
    layout_.get(memory_.data() + offset(layer, head, at), at % kPanelTokens, key, value);
  }

  // Counts `tokens` rows, put behind end(), as held. Precondition: they were reserved.
  void publish(Index tokens) noexcept { end_ += tokens; }

  // Drops the rows from `new_end` on.
  //
  // Errors   std::invalid_argument when `new_end` is not in [0, end()], CannotRewind when a window
  //          before it is no longer held
  void rewind(Position new_end) {
    expects(new_end >= 0 && new_end <= end_, "kv::Ring::rewind: ", new_end, " is not in [0, ", end_,
            "]");
    expects<CannotRewind>(new_end == end_ || new_end == 0 || new_end >= earliest_rewind(),
                          "kv::Ring::rewind: to ", new_end, ", where a window of ", window_,
                          " tokens is held from ", earliest_rewind(), " on");
    spoil(*this, {new_end, end_});
    if (new_end == 0) begin_ = 0;
    end_ = reserved_ = new_end;
  }

  // Counts positions before `first` as overwritten: for slots that never held their rows.
  //
  // Errors   std::invalid_argument when `first` is not in [0, end()]
  void drop_before(Position first) {
    expects(first >= 0 && first <= end_, "kv::Ring::drop_before: ", first, " is not in [0, ", end_,
            "]");
    begin_ = std::max(begin_, first);
  }

  // At most three spans: the sink tokens, the ring up to where its memory ends, and from where it
  // begins.
  auto panel_spans(Index layer, Index head) const noexcept {
    const Index last = ceil_div(reserved_, kPanelTokens);
    const Index first = begin_ / kPanelTokens;
    const Index sinks = std::min({sink_panels_, last, first});
    const Index lap = std::max(first, sink_panels_) - sink_panels_;
    const Index wrap = std::min(last, sink_panels_ + round_up(lap + 1, panels_));
    std::array<PanelSpan, 3> spans;
    std::size_t count = 0;
    const auto add = [&](Index from, Index to) {
      if (from < to) spans[count++] = span(layer, head, from, to);
    };
    add(0, sinks);
    add(first, wrap);
    add(wrap, last);
    return detail::PanelSpanRange(static_cast<Index>(count), [spans](Index at) {
      return spans[static_cast<std::size_t>(at)];
    });
  }

 private:
  // Panels for a window and a chunk, at any alignment.
  static constexpr Index panels_for(Index window, Index chunk) {
    expects(window > 0 && chunk > 0, "kv::Ring: a window of ", window, " tokens and a chunk of ",
            chunk);
    return ceil_div(checked_sum(checked_sum(window, chunk), kPanelTokens - 2), kPanelTokens);
  }

  PanelSpan span(Index layer, Index head, Index first, Index end) const noexcept {
    return {.first = first * kPanelTokens,
            .tokens = (end - first) * kPanelTokens,
            .panels = memory_.data() + offset(layer, head, first * kPanelTokens),
            .panel_bytes = layout_.bytes()};
  }

  // Where the panel of `at` begins.
  Index offset(Index layer, Index head, Position at) const noexcept {
    const Index panel = at / kPanelTokens;
    const Index place =
        panel < sink_panels_ ? panel : sink_panels_ + (panel - sink_panels_) % panels_;
    return ((layer * geometry_.heads + head) * (sink_panels_ + panels_) + place) * layout_.bytes();
  }

  Geometry geometry_;
  PanelLayout<K, V> layout_;
  Index window_, chunk_, sink_tokens_;
  Index sink_panels_, panels_;  // panels_ wrap around
  Position begin_ = 0;          // of the rows not overwritten
  Position end_ = 0;
  Position reserved_ = 0;  // how far slots may be written: end_, or beyond
  Buffer<std::byte> memory_;
};

}  // namespace decant::inline DECANT_ABI::kv
