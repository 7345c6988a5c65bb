// tests/kv/stores.hpp - rows made from an id, and stores compared with lists of ids.
#pragma once

#include "law/bits.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::trial {

inline constexpr kv::Geometry kStoreGeometry = {
    .layers = 2, .heads = 3, .key_dim = 7, .value_dim = 18};
// Rows of several groups of 32, of which the last is part-filled.
inline constexpr kv::Geometry kWideGeometry = {
    .layers = 2, .heads = 2, .key_dim = 71, .value_dim = 45};

// Keys in one format and values in another, for typed tests.
template <codec::Codec K, codec::Codec V>
struct Formats {
  using Keys = K;
  using Values = V;
};

struct StoredRow {
  std::vector<float> key;
  std::vector<float> value;
  friend bool operator==(const StoredRow&, const StoredRow&) = default;
};

// The row of one layer and head of token number `id`.
inline StoredRow row_of(Index id, Index layer, Index head,
                        const kv::Geometry& geometry = kStoreGeometry) {
  const auto seed = static_cast<std::uint64_t>(1 + (id * 8 + layer) * 8 + head);
  return {noisy(geometry.key_dim, 2 * seed), noisy(geometry.value_dim, 2 * seed + 1)};
}

// A row as a store rounds it, scales included.
template <codec::Codec C>
std::vector<float> stored(std::vector<float> values) {
  const std::size_t group = C::kGroup > 0 ? std::size_t{C::kGroup} : values.size();
  for (std::size_t begin = 0; begin < values.size(); begin += group) {
    const std::span some = std::span(values).subspan(begin, std::min(group, values.size() - begin));
    const float scale = codec::scale_of<C>(some);
    for (float& number : some) {
      number = codec::load<C>(codec::store<C>([&](Index) { return number * (1.0f / scale); }), 0) *
               scale;
    }
  }
  return values;
}

template <class F>
void for_heads(const kv::Geometry& geometry, F&& visit) {
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    for (Index head = 0; head < geometry.heads; ++head) visit(layer, head);
  }
}
template <class F>
void for_heads(F&& visit) {
  for_heads(kStoreGeometry, visit);
}

template <kv::Store S>
void put_rows(S& store, std::span<const Index> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for_heads(store.geometry(), [&](Index layer, Index head) {
      const StoredRow row = row_of(ids[i], layer, head, store.geometry());
      store.put(layer, head, store.end() + static_cast<Index>(i), row.key, row.value);
    });
  }
}

template <kv::Store S>
void append(S& store, std::span<const Index> ids) {
  store.reserve(std::ssize(ids));
  put_rows(store, ids);
  store.publish(std::ssize(ids));
}

// Whether every layer of a store holds rows ids[begin(layer), end()) and nothing else.
template <kv::Store S>
testing::AssertionResult holds(const S& store, std::span<const Index> ids) {
  if (store.end() != std::ssize(ids)) {
    return testing::AssertionFailure() << store.end() << " rows, not " << ids.size();
  }
  bool same = true;
  Position odd = 0;
  for (Position at = 0; at < store.end(); ++at) {
    for_heads(store.geometry(), [&](Index layer, Index head) {
      if (at < store.begin(layer)) return;
      const StoredRow row =
          row_of(ids[static_cast<std::size_t>(at)], layer, head, store.geometry());
      StoredRow held = row;
      store.get(layer, head, at, held.key, held.value);
      const bool equal = held.key == stored<typename S::Keys>(row.key) &&
                         held.value == stored<typename S::Values>(row.value);
      if (same && !equal) odd = at;
      same = same && equal;
    });
  }
  if (same) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "row " << odd << " is another";
}

}  // namespace decant::trial
