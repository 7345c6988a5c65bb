// decant/attention/detail/segment.hpp - a tile of queries against the keys of one segment.
//
// Tiles of 64 keys at absolute positions go by in ascending order. Of each tile the scores of up to
// six queries are one tile product with the key panels; the running softmax follows, and the values
// are added token by token. A query takes part in a tile exactly as far as it sees keys there, so
// its bits do not depend on the queries beside it.
//
// Source      Dao et al. 2022, "FlashAttention", arXiv:2205.14135
// Tested by   tests/attention/attend_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/detail/key_tile.hpp>
#include <decant/attention/detail/value_tile.hpp>
#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/attention/score.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>
#include <decant/kv/store.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace decant::inline DECANT_ABI::attention::detail {

// What R queries from `query` on see of the tile, and their scores there.
template <int R, codec::Codec K, codec::Codec V, Mask M, class Ahead>
void score_queries(const QueryTile& queries, Index query, const KeyTile<K, V>& tile,
                   const Range& segment, const M& mask, const Ahead& ahead,
                   const Scratch::Worker& worker) {
  Range all = {kTileKeys, 0};
  for (Index q = query; q < query + R; ++q) {
    const Range visible = mask.visible(queries.first + q / queries.group);
    const Range keys = within(
        {std::max(visible.begin, segment.begin), std::min(visible.end, segment.end)}, tile.first);
    worker.keys[q] = keys;
    if (!keys.empty()) all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
  }
  if (all.empty()) return;
  score_tile<R>(queries, query, tile, panels_of(all), ahead, worker);
}

// values[r] += weights[r] · values of the tokens, for D * 16 dimensions from `dim`. Tokens that
// all R queries see are added together, the rest query by query, always in ascending order.
template <int R, int D, codec::Codec K, codec::Codec V, class Ahead>
void add_queries(const QueryTile& queries, Index query, const KeyTile<K, V>& tile, Index dim,
                 const Ahead& ahead, const Scratch::Worker& worker) {
  const auto sums_from = [&](Index q) {
    return ValueSums{worker.scores + q * kTileKeys, worker.values + q * queries.value_lanes,
                     queries.value_lanes};
  };
  const auto alone = [&](Index q, const Range& tokens) {
    if (tokens.empty()) return;
    add_values<V, 1, D>(sums_from(q), tile.values.data(), tile.value_scales.data(), tokens, dim,
                        ahead);
  };
  Range common = {0, kTileKeys};
  for (Index q = query; q < query + R; ++q) {
    common = {std::max(common.begin, worker.keys[q].begin),
              std::min(common.end, worker.keys[q].end)};
  }
  if (common.empty()) {
    for (Index q = query; q < query + R; ++q) alone(q, worker.keys[q]);
    return;
  }
  for (Index q = query; q < query + R; ++q) alone(q, {worker.keys[q].begin, common.begin});
  add_values<V, R, D>(sums_from(query), tile.values.data(), tile.value_scales.data(), common, dim,
                      ahead);
  for (Index q = query; q < query + R; ++q) alone(q, {common.end, worker.keys[q].end});
}

// Replaces the scores of all queries by weights. Each pass leaves the rows independent of each
// other, so that one row's chain of operations hides behind the next row's. Steps of `ahead` are
// the rows of both passes.
template <codec::Codec K, codec::Codec V, Score F, class Ahead = kernels::detail::StayHere>
void update_rows(const QueryTile& queries, const KeyTile<K, V>& tile, const F& transform,
                 const Scratch::Worker& worker, const Ahead& ahead = {}) {
  for (Index q = 0; q < queries.count; ++q) {
    ahead.run(q);
    const ScorePlace place = {queries.sequence, queries.row_of(q), queries.head_of(q), tile.first,
                              0};
    kernels::SoftmaxPart& part = worker.parts[q];
    Range& keys = worker.keys[q];
    float* scores = worker.scores + q * kTileKeys;
    const float maximum =
        std::max(part.maximum, finish_scores(scores, keys, tile, transform, place));
    if (maximum == kernels::kNoScore) {
      if (holds_nan(scores, keys)) {
        part.maximum = std::numeric_limits<float>::quiet_NaN();
      } else {
        keys = {};
      }
    } else if (maximum != part.maximum) {
      rescale(part.maximum, maximum, worker.sums + q * kLanes,
              worker.values + q * queries.value_lanes, queries.value_lanes);
      part.maximum = maximum;
    }
  }
  for (Index q = 0; q < queries.count; ++q) {
    ahead.run(queries.count + q);
    float* sums = worker.sums + q * kLanes;
    simd::store(sums, simd::load(sums) + weigh(worker.scores + q * kTileKeys, worker.keys[q], tile,
                                               worker.parts[q].maximum));
  }
}

// work(integral_constant<runs of 16>, first dimension) for the dimensions of values, a few at a
// time.
template <class F>
DECANT_ALWAYS_INLINE void for_dims(const QueryTile& queries, F&& work) {
  constexpr Index kDims = kernels::detail::kTilePanels * kLanes;
  Index dim = 0;
  for (; dim + kDims <= queries.value_lanes; dim += kDims) {
    work(std::integral_constant<int, kernels::detail::kTilePanels>{}, dim);
  }
  for (; dim < queries.value_lanes; dim += kLanes) work(std::integral_constant<int, 1>{}, dim);
}

// The values of a tile for all queries.
template <codec::Codec K, codec::Codec V, class Ahead>
void add_tile(const QueryTile& queries, const KeyTile<K, V>& tile, const Ahead& ahead,
              const Scratch::Worker& worker) {
  for_dims(queries, [&](auto runs, Index dim) {
    for_tiles(queries, [&](auto rows, Index query) {
      add_queries<rows, runs>(queries, query, tile, dim, ahead, worker);
    });
  });
}

// The tile for up to six queries and integer keys. Scores then take less time than reading their
// keys does, so that memory would be late there and idle elsewhere: the next tile is prefetched
// from front to back, a quarter during the scores, a quarter during the softmax, half during the
// values.
template <codec::Codec K, codec::Codec V, Mask M, Score F>
void visit_spread(const QueryTile& queries, const KeyTile<K, V>& tile, const Range& segment,
                  const M& mask, const F& transform, const Scratch::Worker& worker) {
  const Index quarter = tile.bytes / 4;
  const auto part = [&](Index bytes_before, Index steps, Index bytes) {
    return kernels::detail::NextPart{.from = tile.start,
                                     .distance = tile.bytes + bytes_before,
                                     .stride = ceil_div(bytes, steps)};
  };
  for_tiles(queries, [&](auto rows, Index query) {
    score_queries<rows>(queries, query, tile, segment, mask, part(0, queries.key_dim, quarter),
                        worker);
  });
  update_rows(queries, tile, transform, worker, part(quarter, 2 * queries.count, quarter));
  for_dims(queries, [&](auto runs, Index dim) {
    const Index before = 2 * quarter * (queries.value_lanes + dim) / queries.value_lanes;
    const Index bytes = 2 * quarter * runs * kLanes / queries.value_lanes;
    for_tiles(queries, [&](auto rows, Index query) {
      add_queries<rows, runs>(queries, query, tile, dim, part(before, kTileKeys, bytes), worker);
    });
  });
}

// One tile for all queries: first every score, so that the key panels stay in the first-level
// cache, then every softmax, then the values. The next tile is prefetched meanwhile: at the pace
// of reading if one tile product reads it, and a part each time if many do.
template <codec::Codec K, codec::Codec V, Mask M, Score F>
void visit_tile(const QueryTile& queries, const KeyTile<K, V>& tile, const Range& segment,
                const M& mask, const F& transform, const Scratch::Worker& worker) {
  if constexpr (codec::IntegerCodec<K> && kernels::detail::kTilePanels == kPanelsPerTile) {
    if (queries.count <= kernels::detail::kTileRows) {
      return visit_spread(queries, tile, segment, mask, transform, worker);
    }
  }
  if (queries.count <= kernels::detail::kTileRows) {
    const kernels::detail::SamePlace ahead = {tile.bytes};
    for_tiles(queries, [&](auto rows, Index query) {
      score_queries<rows>(queries, query, tile, segment, mask, ahead, worker);
    });
    update_rows(queries, tile, transform, worker);
    return add_tile(queries, tile, ahead, worker);
  }
  const Index share = ceil_div(tile.bytes, ceil_div(queries.count, kernels::detail::kTileRows));
  for_tiles(queries, [&](auto rows, Index query) {
    const kernels::detail::NextPart ahead = {
        .from = tile.start,
        .distance = tile.bytes + query / kernels::detail::kTileRows * share,
        .stride = ceil_div(share, queries.key_dim)};
    score_queries<rows>(queries, query, tile, segment, mask, ahead, worker);
  });
  update_rows(queries, tile, transform, worker);
  add_tile(queries, tile, kernels::detail::StayHere{}, worker);
}

// All tiles of `segment`, a range of positions within one segment, for all queries of the tile.
// worker.parts and worker.values are set to what they see there.
template <kv::Store S, Mask M, Score F>
void attend_segment(const QueryTile& queries, const S& store, Index layer, const Range& segment,
                    const M& mask, const F& transform, const Scratch::Worker& worker) {
  std::fill_n(worker.parts, queries.count, kernels::SoftmaxPart{});
  std::fill_n(worker.sums, queries.count * kLanes, 0.0f);
  std::fill_n(worker.values, queries.count * queries.value_lanes, 0.0f);
  const kv::PanelLayout<typename S::Keys, typename S::Values> layout(store.geometry());
  const auto spans = store.panel_spans(layer, queries.head / queries.group);
  auto next = std::ranges::partition_point(
      spans, [&](const kv::PanelSpan& before) { return before.end() <= segment.begin; });
  kv::PanelSpan held;
  KeyTile<typename S::Keys, typename S::Values> tile;
  tile.bytes = layout.bytes() * kPanelsPerTile;
  for (tile.first = segment.begin / kTileKeys * kTileKeys; tile.first < segment.end;
       tile.first += kTileKeys) {
    tile.start = nullptr;
    for (Index panel = 0; panel < kPanelsPerTile; ++panel) {
      const Position position = tile.first + panel * kv::kPanelTokens;
      if (position >= segment.end || position + kv::kPanelTokens <= segment.begin) continue;
      if (position >= held.end()) held = *next++;
      const std::byte* cells = held.panel(position);
      const auto slot = static_cast<std::size_t>(panel);
      tile.keys[slot] = layout.keys().cells(cells);
      tile.values[slot] = layout.values().cells(cells);
      tile.key_scales[slot] = layout.keys().scales(cells);
      tile.value_scales[slot] = layout.values().scales(cells);
      if (tile.start == nullptr) tile.start = cells;
    }
    visit_tile(queries, tile, segment, mask, transform, worker);
  }
  for (Index query = 0; query < queries.count; ++query) {
    worker.parts[query].sum = simd::reduce_add(simd::load(worker.sums + query * kLanes));
  }
}

}  // namespace decant::inline DECANT_ABI::attention::detail
