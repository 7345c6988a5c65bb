// decant/kv/contiguous.hpp - a contiguous KV cache: keys and values of one sequence in one run of
// memory per layer.
//
// Everything is allocated when the store is made and nothing moves afterwards: slot and position
// are equal, and one head of one layer is one linear run.
//
// Tested by   tests/kv/contiguous_test.cpp, against a list of rows
#pragma once

#include <decant/core/buffer.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/error.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/store.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// Move-only; a store that was moved from may only be destroyed or assigned to.
//
// Keys are stored by codec K and values by codec V.
//
// Shape    memory is [layers][heads][ceil(capacity / 16)] panels
// Units    capacity and positions count tokens
// Errors   std::invalid_argument, CacheFull (reserve); std::bad_alloc from the constructor; nothing
//          changed then
// Cost     put O(key_dim + value_dim), everything else O(1); only the constructor allocates
// Threads  reads may overlap, and puts of different (layer, head, position); the rest needs the
//          store to itself
template <codec::Codec K, codec::Codec V = K>
class Contiguous {
 public:
  using Keys = K;
  using Values = V;

  Contiguous(const Geometry& geometry, Index capacity,
             std::pmr::memory_resource& memory = default_memory())
      : geometry_(geometry), layout_(geometry), capacity_(capacity) {
    check(geometry, "kv::Contiguous");
    expects(capacity > 0, "kv::Contiguous: capacity of ", capacity, " tokens");
    memory_ = Buffer<std::byte>(geometry.bytes<K, V>(capacity), memory);
    debug::spoil(memory_.data(), memory_.bytes());
  }

  const Geometry& geometry() const noexcept { return geometry_; }
  Position begin(Index) const noexcept { return 0; }
  Position end() const noexcept { return end_; }
  Index sink_tokens() const noexcept { return 0; }
  Index capacity() const noexcept { return capacity_; }
  Index bytes() const noexcept { return memory_.bytes(); }
  Position earliest_rewind() const noexcept { return 0; }
  Index window(Index) const noexcept { return 0; }
  Index chunk() const noexcept { return std::numeric_limits<Index>::max(); }

  // Errors   CacheFull when fewer than `tokens` slots are free, std::invalid_argument
  void reserve(Index tokens) {
    expects(tokens >= 0, "kv::Contiguous::reserve: ", tokens, " tokens");
    expects<CacheFull>(tokens <= capacity_ - end_, "kv::Contiguous: ", tokens,
                       " more tokens do not fit, ", end_, " of ", capacity_, " are in use");
    spoil(*this, {end_, end_ + tokens});
  }

  // The panel of one head that `at` lies in. Preconditions: layer and head exist, `at` is held or
  // reserved.
  std::byte* panel(Index layer, Index head, Position at) noexcept {
    return memory_.data() + offset(layer, head, at);
  }

  // Stores the row of one head in its panel, of a slot that is reserved or held. Preconditions:
  // those of panel(), and the shapes are as said.
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
    check_place(geometry_, layer, head, key.size(), value.size(), "kv::Contiguous::get");
    expects(at >= 0 && at < end_, "kv::Contiguous::get: position ", at, " is not in [0, ", end_,
            ")");
    layout_.get(memory_.data() + offset(layer, head, at), at % kPanelTokens, key, value);
  }

  // Counts `tokens` rows, put behind end(), as held. Precondition: they were reserved.
  void publish(Index tokens) noexcept { end_ += tokens; }

  // Drops the rows from `new_end` on.
  //
  // Errors   std::invalid_argument when `new_end` is not in [0, end()]
  void rewind(Position new_end) {
    expects(new_end >= 0 && new_end <= end_, "kv::Contiguous::rewind: ", new_end, " is not in [0, ",
            end_, "]");
    spoil(*this, {new_end, end_});
    end_ = new_end;
  }

  std::array<PanelSpan, 1> panel_spans(Index layer, Index head) const noexcept {
    return {{{.first = 0,
              .tokens = panels() * kPanelTokens,
              .panels = memory_.data() + offset(layer, head, 0),
              .panel_bytes = layout_.bytes()}}};
  }

 private:
  Index panels() const noexcept { return ceil_div(capacity_, kPanelTokens); }

  // Where the panel of `at` begins.
  Index offset(Index layer, Index head, Position at) const noexcept {
    return ((layer * geometry_.heads + head) * panels() + at / kPanelTokens) * layout_.bytes();
  }

  Geometry geometry_;
  PanelLayout<K, V> layout_;
  Index capacity_;
  Position end_ = 0;
  Buffer<std::byte> memory_;
};

}  // namespace decant::inline DECANT_ABI::kv
