// decant/model/context_shift.hpp - context shift: removing a range of tokens from a sequence.
//
// If a conversation outgrows its model, old tokens are removed and later ones move up. A key is
// rotated by its position, so it is rotated back by the distance that it moves. What remains was
// computed while the removed tokens were seen, so this is an approximation: exact for the first
// layer, and for the others the closer, the less the removed tokens mattered. Stores with a window
// drop old tokens by themselves and need no shift.
//
// Source      llama.cpp calls it context shift; Su et al. 2021, arXiv:2104.09864 (rotations add)
// Tested by   tests/model/context_shift_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/config.hpp>
#include <decant/model/store_check.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::model {

namespace detail {

// Moves the rows behind the gap to their new positions. `from` and `to` may be one store.
template <kv::Store S>
void move_up(const Config& config, const S& from, S& to, const Range& gap, Position end) {
  const std::vector<double> frequencies = attention::frequencies(*config.rope, config.key_dim);
  std::vector<float> cosines(frequencies.size()), sines(frequencies.size());
  attention::angles(-gap.size(), frequencies, cosines, sines);
  std::vector<float> key(static_cast<std::size_t>(config.key_dim));
  std::vector<float> value(static_cast<std::size_t>(config.value_dim));
  for (Index layer = 0; layer < config.layers; ++layer) {
    for (Index head = 0; head < config.kv_heads; ++head) {
      for (Position at = gap.end; at < end; ++at) {
        from.get(layer, head, at, key, value);
        attention::rotate(key, cosines, sines, config.rope->pairing);
        to.put(layer, head, at - gap.size(), key, value);
      }
    }
  }
}

template <kv::Store S>
void check_removed(const Config& config, const S& store, const Range& gap) {
  check(config, store, "model::context_shift");
  expects(config.rope.has_value(),
          "model::context_shift: positions are learned, and cannot be rotated");
  expects(gap.begin >= 0 && gap.begin <= gap.end && gap.end <= store.end(),
          "model::context_shift: [", gap.begin, ", ", gap.end, ") of ", store.end(), " tokens");
}

template <kv::Store S>
void close_in_place(const Config& config, S& store, const Range& gap) {
  if (gap.begin == gap.end) return;
  const Position end = store.end();
  move_up(config, store, store, gap, end);
  store.rewind(end - gap.size());
}

}  // namespace detail

// Removes the positions of `gap` from a store; the row at gap.end moves to gap.begin. Keys are
// widened, rotated and rounded again, in the store's format.
//
// Errors   std::invalid_argument (a gap that is not held, another model's store, learned
//          positions), std::bad_alloc; nothing changed then
// Cost     every element behind the gap is read and written once
// Threads  the store belongs to the call
template <codec::Codec K, codec::Codec V>
void context_shift(const Config& config, kv::Contiguous<K, V>& store, const Range& gap) {
  detail::check_removed(config, store, gap);
  detail::close_in_place(config, store, gap);
}

// The same in pages. Shared pages stay as they are; rows behind gap.begin then go into free pages.
//
// Errors   as above, and CacheFull if there are too few; nothing changed then
template <codec::Codec K, codec::Codec V>
void context_shift(const Config& config, kv::Paged<K, V>& store, const Range& gap) {
  detail::check_removed(config, store, gap);
  if (gap.begin == gap.end || !store.shares(gap.begin)) {
    return detail::close_in_place(config, store, gap);
  }
  const Position end = store.end();
  kv::Paged<K, V> whole = store.fork();
  store.rewind(gap.begin);
  try {
    store.reserve(end - gap.end);
    detail::move_up(config, whole, store, gap, end);
  } catch (...) {
    store = std::move(whole);
    throw;
  }
  store.publish(end - gap.end);
}

}  // namespace decant::inline DECANT_ABI::model
