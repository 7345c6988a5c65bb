// decant/attention/detail/key_tile.hpp - the scores of a tile of queries with a tile of 64 keys,
// and their softmax weights.
//
// Scores of up to six queries are one tile product with the key panels. From there on each query's
// are on their own: scaled, transformed and masked, and made weights under the largest so far.
//
// Source      Dao et al. 2022, "FlashAttention", arXiv:2205.14135
// Tested by   tests/attention/attend_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/problem.hpp>
#include <decant/attention/score.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/integer_tile.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace decant::inline DECANT_ABI::attention::detail {

inline constexpr Index kPanelsPerTile = kTileKeys / kv::kPanelTokens;

// Whether a row has one scale, which multiplies a score or a weight. The scales of groups multiply
// the sums over a group of a key, and the elements of a value as they are widened.
template <codec::Codec C>
inline constexpr bool kRowScale = C::kScaled && C::kGroup == 0;

// Queries of consecutive rows and of the query heads that share one key head: query q is row
// q / group, head q % group.
struct QueryTile {
  Index sequence = 0;
  Index row = 0;       // the first, in its sequence
  Position first = 0;  // position of that row
  Index head = 0;      // first query head of the group
  Index group = 0;
  Index count = 0;  // queries

  Index row_of(Index q) const noexcept { return row + q / group; }
  Index head_of(Index q) const noexcept { return head + q % group; }

  Index key_dim = 0;
  Index value_lanes = 0;
};

// work(integral_constant<rows>, first query) for the queries, six at a time.
template <class F>
DECANT_ALWAYS_INLINE void for_tiles(const QueryTile& queries, F&& work) {
  for (Index query = 0; query < queries.count; query += kernels::detail::kTileRows) {
    kernels::detail::with_rows(std::min<Index>(kernels::detail::kTileRows, queries.count - query),
                               [&](auto rows) { work(rows, query); });
  }
}

// The panels of one tile and their scales, [scales of a row][16].
template <codec::Codec K, codec::Codec V>
struct KeyTile {
  Position first = 0;
  std::array<const typename K::Cell*, kPanelsPerTile> keys{};
  std::array<const typename V::Cell*, kPanelsPerTile> values{};
  std::array<const float*, kPanelsPerTile> key_scales{};  // null if the codec has none
  std::array<const float*, kPanelsPerTile> value_scales{};
  const std::byte* start = nullptr;  // of the first panel that is visited
  Index bytes = 0;                   // of its panels
};

// Keys [begin, end) of the tile, counted from its first; {0, 0} if there are none.
inline Range within(const Range& visible, Position first) noexcept {
  const Range keys = {std::clamp<Position>(visible.begin - first, 0, kTileKeys),
                      std::clamp<Position>(visible.end - first, 0, kTileKeys)};
  return keys.empty() ? Range{} : keys;
}

inline Range panels_of(const Range& keys) noexcept {
  return {keys.begin / kv::kPanelTokens, ceil_div(keys.end, kv::kPanelTokens)};
}

// scores[r][key] = query r · key of R queries from `query` on, for P panels from `panel` on.
template <int R, int P, codec::Codec K, codec::Codec V, class Ahead>
void score_panels(const QueryTile& queries, Index query, const KeyTile<K, V>& tile, Index panel,
                  const Ahead& ahead, const Scratch::Worker& worker) {
  Array<const typename K::Cell*, P> panels;
  for (int p = 0; p < P; ++p) panels[p] = tile.keys[static_cast<std::size_t>(panel + p)];
  float* scores = worker.scores + query * kTileKeys + panel * kv::kPanelTokens;
  if constexpr (codec::IntegerCodec<K>) {
    const std::int32_t* rows = worker.int_queries + query * ceil_div(queries.key_dim, 2);
    kernels::detail::multiply_integer_tile<K, R, P>(rows, worker.query_scales + query, panels,
                                                    queries.key_dim, scores, kTileKeys, ahead,
                                                    tile.key_scales.data() + panel);
  } else {
    kernels::detail::multiply_tile<K, R, P>(worker.queries + query * queries.key_dim, panels,
                                            queries.key_dim, scores, kTileKeys,
                                            kernels::detail::Begin::zero, ahead);
  }
}

// The same for the panels in `panels`.
template <int R, codec::Codec K, codec::Codec V, class Ahead>
void score_tile(const QueryTile& queries, Index query, const KeyTile<K, V>& tile, Range panels,
                const Ahead& ahead, const Scratch::Worker& worker) {
  if constexpr (kernels::detail::kTilePanels == kPanelsPerTile) {
    if (panels == Range{0, kPanelsPerTile}) {
      return score_panels<R, kPanelsPerTile>(queries, query, tile, 0, ahead, worker);
    }
  }
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    score_panels<R, 1>(queries, query, tile, panel, ahead, worker);
  }
}

// Scales, transforms and masks the scores of one query; returns the largest of them.
template <codec::Codec K, codec::Codec V, Score F>
float finish_scores(float* scores, const Range& keys, const KeyTile<K, V>& tile, const F& transform,
                    ScorePlace place) {
  const Range panels = panels_of(keys);
  simd::Lanes top = simd::broadcast(kernels::kNoScore);
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    const Index start = panel * kv::kPanelTokens;
    place.first_key = tile.first + start;
    place.keys = std::min(kLanes, keys.end - start);
    simd::Lanes score = simd::load(scores + start);
    if constexpr (kRowScale<K>) {
      score = score * simd::load(tile.key_scales[static_cast<std::size_t>(panel)]);
    }
    score = transform(score, place);
    if (keys.begin > start || keys.end < start + kLanes) {
      score = simd::select_range(score, keys.begin - start, keys.end - start, kernels::kNoScore);
    }
    simd::store(scores + start, score);
    top = simd::max(top, score);
  }
  return simd::reduce_max(top);
}

// Whether a score is NaN. A maximum may pass over NaN, and a row of nothing else must not look as
// if it saw no key.
inline bool holds_nan(const float* scores, const Range& keys) {
  return std::any_of(scores + keys.begin, scores + keys.end,
                     [](float score) { return std::isnan(score); });
}

// Replaces the scores of one query by weights under the maximum that `part` already has, times the
// scales of the values; returns what the weights add to its sum.
template <codec::Codec K, codec::Codec V>
simd::Lanes weigh(float* scores, const Range& keys, const KeyTile<K, V>& tile, float maximum) {
  const Range panels = panels_of(keys);
  simd::Lanes added = simd::broadcast(0.0f);
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    float* at = scores + panel * kv::kPanelTokens;
    const simd::Lanes weight = simd::exp(simd::load(at) - simd::broadcast(maximum));
    added = added + weight;
    if constexpr (kRowScale<V>) {
      simd::store(at, weight * simd::load(tile.value_scales[static_cast<std::size_t>(panel)]));
    } else {
      simd::store(at, weight);
    }
  }
  return added;
}

// Rescales what a query has summed so far to a new maximum.
inline void rescale(float old_maximum, float maximum, float* sums, float* values,
                    Index value_lanes) {
  const simd::Lanes factor = simd::broadcast(simd::exp(old_maximum - maximum));
  simd::store(sums, simd::load(sums) * factor);
  for (Index at = 0; at < value_lanes; at += kLanes) {
    simd::store(values + at, simd::load(values + at) * factor);
  }
}

}  // namespace decant::inline DECANT_ABI::attention::detail
