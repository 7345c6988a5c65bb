// decant/kv/contiguous.hpp - keys and values of one sequence in one run of memory per layer.
//
// Everything is allocated when the store is made and nothing moves afterwards: slot and position
// are the same number, and one head of one layer is one linear run.
//
// Depends on  core/buffer.hpp, kv/block.hpp, kv/geometry.hpp
// Tested by   tests/kv/contiguous_test.cpp, against a list of rows
#pragma once

#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/block.hpp>
#include <decant/kv/geometry.hpp>

#include <array>
#include <span>

namespace decant::inline v0::kv {

// Move-only; a store that was moved from may only be destroyed or assigned to.
//
// Shape    cells are [layers][heads][ceil(capacity / 16)] panels
// Units    capacity and positions count tokens
// Errors   std::invalid_argument, CacheFull (reserve); std::bad_alloc from the constructor; nothing
//          changed then
// Cost     put O(key_dim + value_dim), everything else O(1); only the constructor allocates
// Threads  reads may overlap, and puts of different (layer, head, position); the rest needs the
//          store to itself
template <codec::Codec C>
class Contiguous {
 public:
  using Codec = C;
  using Cell = typename C::Cell;

  Contiguous(const Geometry& geometry, Index capacity) : geometry_(geometry), capacity_(capacity) {
    expects(
        geometry.layers > 0 && geometry.heads > 0 && geometry.key_dim > 0 && geometry.value_dim > 0,
        "kv::Contiguous: empty geometry of ", geometry.layers, " layers, ", geometry.heads,
        " heads, keys of ", geometry.key_dim, ", values of ", geometry.value_dim);
    expects(capacity > 0, "kv::Contiguous: capacity of ", capacity, " tokens");
    cells_ = Buffer<Cell>(geometry.bytes<C>(capacity) / Index{sizeof(Cell)});
  }

  const Geometry& geometry() const noexcept { return geometry_; }
  Position begin() const noexcept { return 0; }
  Position end() const noexcept { return end_; }
  Index capacity() const noexcept { return capacity_; }
  Index bytes() const noexcept { return cells_.bytes(); }
  Position earliest_rewind() const noexcept { return 0; }

  // Errors   CacheFull when fewer than `tokens` slots are free, std::invalid_argument
  void reserve(Index tokens) {
    expects(tokens >= 0, "kv::Contiguous::reserve: ", tokens, " tokens");
    expects<CacheFull>(tokens <= capacity_ - end_, "kv::Contiguous: ", tokens,
                       " more tokens do not fit, ", end_, " of ", capacity_, " are in use");
  }

  // Stores the row of one head. Preconditions: layer and head exist, `at` lies in the reserved
  // slots, and the shapes are as said.
  //
  // Shape    key is [key_dim], value is [value_dim]
  void put(Index layer, Index head, Position at, std::span<const float> key,
           std::span<const float> value) noexcept {
    Cell* keys = cells_.data() + key_offset(layer, head, at);
    Cell* values = cells_.data() + value_offset(layer, head, at);
    for (Index k = 0; k < geometry_.key_dim; ++k) keys[key_step(k)] = C::store(key.data()[k]);
    for (Index d = 0; d < geometry_.value_dim; ++d) values[d * kStep] = C::store(value.data()[d]);
  }

  // Reads back the row of one head, widened to f32.
  //
  // Shape    key is [key_dim], value is [value_dim]
  // Errors   std::invalid_argument when there is no such place or the shapes differ
  void get(Index layer, Index head, Position at, std::span<float> key,
           std::span<float> value) const {
    expects(layer >= 0 && layer < geometry_.layers && head >= 0 && head < geometry_.heads &&
                std::ssize(key) == geometry_.key_dim && std::ssize(value) == geometry_.value_dim,
            "kv::Contiguous::get: layer ", layer, ", head ", head, ", key of ", key.size(),
            ", value of ", value.size());
    expects(at >= 0 && at < end_, "kv::Contiguous::get: position ", at, " is not in [0, ", end_,
            ")");
    const Cell* keys = cells_.data() + key_offset(layer, head, at);
    const Cell* values = cells_.data() + value_offset(layer, head, at);
    for (Index k = 0; k < geometry_.key_dim; ++k) key.data()[k] = C::load(keys[key_step(k)]);
    for (Index d = 0; d < geometry_.value_dim; ++d) value.data()[d] = C::load(values[d * kStep]);
  }

  // Counts `tokens` rows, put behind end(), as held. Precondition: they were reserved.
  void publish(Index tokens) noexcept { end_ += tokens; }

  // Drops the rows from `new_end` on.
  //
  // Errors   std::invalid_argument when `new_end` is not in [0, end()]
  void rewind(Position new_end) {
    expects(new_end >= 0 && new_end <= end_, "kv::Contiguous::rewind: ", new_end, " is not in [0, ",
            end_, "]");
    end_ = new_end;
  }

  std::array<Block<C>, 1> blocks(Index layer, Index head) const noexcept {
    return {{{.first = 0,
              .tokens = ceil_div(capacity_, kPanelTokens) * kPanelTokens,
              .cells = cells_.data() + offset(layer, head, 0),
              .panel_cells = geometry_.panel_cells(C::kInterleave),
              .key_cells = geometry_.key_panel_cells(C::kInterleave)}}};
  }

 private:
  static constexpr Index kStep = C::kInterleave;

  // Where the panel of `at` begins.
  Index offset(Index layer, Index head, Position at) const noexcept {
    const Index panels = ceil_div(capacity_, kPanelTokens);
    return ((layer * geometry_.heads + head) * panels + at / kPanelTokens) *
           geometry_.panel_cells(kStep);
  }
  // Where number 0 of the key of `at` lies; number k is key_step(k) further.
  Index key_offset(Index layer, Index head, Position at) const noexcept {
    return offset(layer, head, at) + at % kPanelTokens * kStep;
  }
  static constexpr Index key_step(Index k) noexcept {
    return k / kStep * kStep * kPanelTokens + k % kStep;
  }
  // Where number 0 of the value of `at` lies; number d is d * kStep further.
  Index value_offset(Index layer, Index head, Position at) const noexcept {
    const Index lane = at % kPanelTokens;
    const Index value_lanes = geometry_.value_panel_cells() / kPanelTokens;
    return offset(layer, head, at) + geometry_.key_panel_cells(kStep) +
           lane / kStep * kStep * value_lanes + lane % kStep;
  }

  Geometry geometry_;
  Index capacity_;
  Position end_ = 0;
  Buffer<Cell> cells_;
};

}  // namespace decant::inline v0::kv
