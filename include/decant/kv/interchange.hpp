// decant/kv/interchange.hpp - keys and values to and from the arrays of other libraries.
//
// Hugging Face's past_key_values and ONNX's past_key and past_value are arrays of one layer,
// [batch][heads][tokens][dim]. A store holds one sequence, so a sequence of a batch is a part of
// each array: [heads][tokens][dim], one head behind the other.
//
// Source      ONNX operators, Attention-23 (past and present)
// Tested by   tests/kv/interchange_test.cpp, tests/onnx/attention_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/store.hpp>

#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// One sequence's keys and values of one layer, in memory of the caller.
//
// Shape    keys [heads][tokens][key_dim], values [heads][tokens][value_dim]
template <class Element>
struct SequenceArrays {
  Element* keys = nullptr;
  Element* values = nullptr;
  Index tokens = 0;  // extent of the arrays, of which a part may be used

  std::span<Element> key(const Geometry& geometry, Index head, Index token) const {
    return row(keys, geometry.key_dim, head, token);
  }
  std::span<Element> value(const Geometry& geometry, Index head, Index token) const {
    return row(values, geometry.value_dim, head, token);
  }

 private:
  std::span<Element> row(Element* from, Index dim, Index head, Index token) const {
    return {from + (head * tokens + token) * dim, static_cast<std::size_t>(dim)};
  }
};

// Appends tokens [from.begin, from.end) of the arrays, given for every layer, to a store. Rows are
// as attention reads them: keys normalised and rotated, in the model's rotary pairing, for the
// positions from store.end() on.
//
// Errors   std::invalid_argument (another number of layers, tokens that the arrays do not have),
//          and what reserve() throws; nothing changed then
// Cost     every element is read and written once
template <Store S>
void append(S& store, std::span<const SequenceArrays<const float>> layers, const Range& from) {
  const Geometry geometry = store.geometry();
  expects(std::ssize(layers) == geometry.layers, "kv::append: arrays of ", layers.size(),
          " layers, to a store of ", geometry.layers);
  for (const auto& arrays : layers) {
    expects(from.begin >= 0 && from.begin <= from.end && from.end <= arrays.tokens,
            "kv::append: tokens [", from.begin, ", ", from.end, ") of ", arrays.tokens);
  }
  store.reserve(from.size());
  const Position first = store.end();
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    const auto& arrays = layers[static_cast<std::size_t>(layer)];
    for (Index head = 0; head < geometry.heads; ++head) {
      for (Index token = from.begin; token < from.end; ++token) {
        store.put(layer, head, first + token - from.begin, arrays.key(geometry, head, token),
                  arrays.value(geometry, head, token));
      }
    }
  }
  store.publish(from.size());
}

// Copies the held positions [from.begin, from.end) of one layer, widened, to the first tokens of
// the arrays.
//
// Errors   std::invalid_argument (no such layer or position, arrays that are too short); nothing
//          written then
// Cost     every element is read and written once
template <Store S>
void copy_out(const S& store, Index layer, const Range& from, const SequenceArrays<float>& to) {
  const Geometry geometry = store.geometry();
  expects(layer >= 0 && layer < geometry.layers, "kv::copy_out: layer ", layer, " of ",
          geometry.layers);
  const Position begin = store.begin(layer);
  expects(from.begin >= begin && from.begin <= from.end && from.end <= store.end(),
          "kv::copy_out: positions [", from.begin, ", ", from.end, ") of a store that holds [",
          begin, ", ", store.end(), ")");
  expects(from.size() <= to.tokens, "kv::copy_out: ", from.size(), " tokens into arrays of ",
          to.tokens);
  for (Index head = 0; head < geometry.heads; ++head) {
    for (Index token = 0; token < from.size(); ++token) {
      store.get(layer, head, from.begin + token, to.key(geometry, head, token),
                to.value(geometry, head, token));
    }
  }
}

}  // namespace decant::inline DECANT_ABI::kv
