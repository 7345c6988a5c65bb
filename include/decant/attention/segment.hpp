// decant/attention/segment.hpp - a block of queries against the keys of one segment.
//
// Tiles of 64 keys at absolute positions go by in ascending order. Of each tile the scores of up to
// six queries are one tile product with the key panels; the running softmax follows, and the values
// are added token by token. A query takes part in a tile exactly as far as it sees keys there, so
// its bits do not depend on the queries beside it.
//
// Depends on  attention/{mask,score,problem,value_tile}.hpp, kernels/{softmax,tile}.hpp
// Source      Dao et al. 2022, "FlashAttention", arXiv:2205.14135
// Tested by   tests/attention/attend_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/attention/score.hpp>
#include <decant/attention/value_tile.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kernels/tile.hpp>

#include <algorithm>
#include <array>

namespace decant::inline v0::attention::detail {

inline constexpr Index kTilePanels = kTileKeys / kv::kPanelTokens;

// Queries of consecutive rows and of the query heads that share one key head: query q is row
// q / group, head q % group.
struct QueryBlock {
  Index sequence = 0;
  Index row = 0;       // of the block's first row, in its sequence
  Position first = 0;  // position of that row
  Index head = 0;      // first query head of the group
  Index group = 0;
  Index count = 0;  // queries
  Index key_dim = 0;
  Index key_stride = 0;
  Index value_lanes = 0;
};

// The panels of one tile, and how far it goes.
template <codec::Codec C>
struct KeyTile {
  Position first = 0;
  std::array<const typename C::Cell*, kTilePanels> keys{};
  std::array<const typename C::Cell*, kTilePanels> values{};
  kernels::Ahead ahead;  // to the same cells of the next tile, where memory is the bound
};

// Keys [begin, end) of the tile, counted from its first.
inline Range within(const Range& visible, Position first) noexcept {
  return {std::clamp<Position>(visible.begin - first, 0, kTileKeys),
          std::clamp<Position>(visible.end - first, 0, kTileKeys)};
}

inline Range panels_of(const Range& keys) noexcept {
  return {keys.begin / kv::kPanelTokens, ceil_div(keys.end, kv::kPanelTokens)};
}

// scores[r][key] = query r · key, for the panels in `panels`.
template <codec::Codec C, int R>
void score_tile(const float* queries, const QueryBlock& block, const KeyTile<C>& tile, Range panels,
                float* scores) {
  std::fill_n(scores, R * kTileKeys, 0.0f);
  if constexpr (kernels::kTilePanels == kTilePanels) {
    if (panels == Range{0, kTilePanels}) {
      const typename C::Cell* four[] = {tile.keys[0], tile.keys[1], tile.keys[2], tile.keys[3]};
      return kernels::multiply_tile<C, R, 4>(queries, block.key_stride, four, block.key_dim, scores,
                                             kTileKeys, tile.ahead);
    }
  }
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    const typename C::Cell* one[] = {tile.keys[static_cast<std::size_t>(panel)]};
    kernels::multiply_tile<C, R, 1>(queries, block.key_stride, one, block.key_dim,
                                    scores + panel * kv::kPanelTokens, kTileKeys, tile.ahead);
  }
}

// Turns the scores of one query into weights under a new maximum, and brings what the query has
// summed so far under the same maximum. False when no key of the tile has a score above -inf.
template <Score F>
bool update_row(float* scores, const Range& keys, const F& transform, ScorePlace place,
                kernels::SoftmaxPart& part, float* sums, float* values, Index value_lanes) {
  const Range panels = panels_of(keys);
  const Position first = place.first_key;
  Lanes top = broadcast(kernels::kNoScore);
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    const Index start = panel * kv::kPanelTokens;
    place.first_key = first + start;
    place.keys = std::min(kLanes, keys.end - start);
    Lanes score = transform(load(scores + start), place);
    if (keys.begin > start || keys.end < start + kLanes) {
      score = keep(score, keys.begin - start, keys.end - start, kernels::kNoScore);
    }
    store(scores + start, score);
    top = max(top, score);
  }
  const float maximum = std::max(part.maximum, reduce_max(top));
  if (maximum == kernels::kNoScore) return false;
  Lanes added = broadcast(0.0f);
  for (Index panel = panels.begin; panel < panels.end; ++panel) {
    float* at = scores + panel * kv::kPanelTokens;
    const Lanes weight = exp(load(at) - broadcast(maximum));
    store(at, weight);
    added = added + weight;
  }
  if (maximum == part.maximum) {
    store(sums, load(sums) + added);
    return true;
  }
  const Lanes factor = broadcast(exp(part.maximum - maximum));
  store(sums, madd(load(sums), factor, added));
  for (Index at = 0; at < value_lanes; at += kLanes) {
    store(values + at, load(values + at) * factor);
  }
  part.maximum = maximum;
  return true;
}

// What R queries from `query` on see of the tile, and their scores there.
template <codec::Codec C, int R, Mask M>
void score_queries(const QueryBlock& block, Index query, const KeyTile<C>& tile,
                   const Range& segment, const M& mask, const Scratch::Worker& worker) {
  Range all = {kTileKeys, 0};
  for (Index q = query; q < query + R; ++q) {
    const Range visible = mask.visible(block.first + q / block.group);
    const Range keys = within(
        {std::max(visible.begin, segment.begin), std::min(visible.end, segment.end)}, tile.first);
    worker.keys[q] = keys;
    if (!keys.empty()) all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
  }
  if (all.empty()) return;
  score_tile<C, R>(worker.queries + query * block.key_stride, block, tile, panels_of(all),
                   worker.scores + query * kTileKeys);
}

// values[r] += weights[r] · values of the tokens, for D * 16 dimensions from `dim`. Tokens that
// all R queries see are added together, the rest query by query, always in ascending order.
template <codec::Codec C, int R, int D>
void add_queries(const QueryBlock& block, Index query, const KeyTile<C>& tile, Index dim,
                 const Scratch::Worker& worker) {
  const auto sums_from = [&](Index q) {
    return ValueSums{worker.scores + q * kTileKeys, kTileKeys,
                     worker.values + q * block.value_lanes, block.value_lanes};
  };
  const auto alone = [&](Index q, const Range& tokens) {
    if (tokens.empty()) return;
    add_values<C, 1, D>(sums_from(q), tile.values.data(), tokens, dim, tile.ahead);
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
  add_values<C, R, D>(sums_from(query), tile.values.data(), common, dim, tile.ahead);
  for (Index q = query; q < query + R; ++q) alone(q, {common.end, worker.keys[q].end});
}

// work(integral_constant<rows>, first query) for the block's queries, six at a time.
template <class F>
DECANT_ALWAYS_INLINE void for_tiles(const QueryBlock& block, F&& work) {
  for (Index query = 0; query < block.count; query += kernels::kTileRows) {
    kernels::with_rows(std::min<Index>(kernels::kTileRows, block.count - query),
                       [&](auto rows) { work(rows, query); });
  }
}

// One tile for all queries: first every score, so that the key panels stay in the first-level
// cache, then every softmax, then the values, a few dimensions at a time.
template <codec::Codec C, Mask M, Score F>
void visit_tile(const QueryBlock& block, const KeyTile<C>& tile, const Range& segment,
                const M& mask, const F& transform, const Scratch::Worker& worker) {
  for_tiles(block, [&](auto rows, Index query) {
    score_queries<C, rows>(block, query, tile, segment, mask, worker);
  });
  for (Index q = 0; q < block.count; ++q) {
    const ScorePlace place = {block.sequence, block.row + q / block.group,
                              block.head + q % block.group, tile.first, 0};
    if (worker.keys[q].empty()) continue;
    const bool seen = update_row(worker.scores + q * kTileKeys, worker.keys[q], transform, place,
                                 worker.parts[q], worker.sums + q * kLanes,
                                 worker.values + q * block.value_lanes, block.value_lanes);
    if (!seen) worker.keys[q] = {};
  }
  constexpr Index kDims = kernels::kTilePanels * kLanes;
  Index dim = 0;
  for (; dim + kDims <= block.value_lanes; dim += kDims) {
    for_tiles(block, [&](auto rows, Index query) {
      add_queries<C, rows, kernels::kTilePanels>(block, query, tile, dim, worker);
    });
  }
  for (; dim < block.value_lanes; dim += kLanes) {
    for_tiles(block, [&](auto rows, Index query) {
      add_queries<C, rows, 1>(block, query, tile, dim, worker);
    });
  }
}

// All tiles of `segment`, a range of positions within one segment, for all queries of the block.
// worker.parts and worker.values are set to what they see there.
template <codec::Codec C, class Blocks, Mask M, Score F>
void attend_segment(const QueryBlock& block, const Blocks& blocks, const Range& segment,
                    const M& mask, const F& transform, const Scratch::Worker& worker) {
  std::fill_n(worker.parts, block.count, kernels::SoftmaxPart{});
  std::fill_n(worker.sums, block.count * kLanes, 0.0f);
  std::fill_n(worker.values, block.count * block.value_lanes, 0.0f);
  auto at = blocks.begin();
  KeyTile<C> tile;
  if (block.count <= kernels::kTileRows) tile.ahead = {at->panel_cells * kTilePanels};
  for (tile.first = segment.begin / kTileKeys * kTileKeys; tile.first < segment.end;
       tile.first += kTileKeys) {
    for (Index panel = 0; panel < kTilePanels; ++panel) {
      const Position position = tile.first + panel * kv::kPanelTokens;
      if (position >= segment.end || position + kv::kPanelTokens <= segment.begin) continue;
      while (position >= at->first + at->tokens) ++at;
      tile.keys[static_cast<std::size_t>(panel)] = at->keys(position);
      tile.values[static_cast<std::size_t>(panel)] = at->values(position);
    }
    visit_tile(block, tile, segment, mask, transform, worker);
  }
  for (Index query = 0; query < block.count; ++query) {
    worker.parts[query].sum = reduce_add(load(worker.sums + query * kLanes));
  }
}

}  // namespace decant::inline v0::attention::detail
