// decant/attention/detail/attend.hpp - defines attention/attend.hpp: how its work is cut and
// merged.
//
// Source      Dao et al. 2022, arXiv:2205.14135; Ainslie et al. 2023, arXiv:2305.13245 (groups)
// Tested by   tests/attention/{attend,sink}_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/attention/detail/query_tile.hpp>
#include <decant/attention/detail/score.hpp>
#include <decant/attention/detail/segment.hpp>
#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::attention {

namespace detail {

template <kv::Store S>
QueryTile query_tile(const Sequence<S>& sequence, Index index, const Problem& problem, Index head,
                     Range rows) {
  const kv::Geometry& geometry = sequence.store->geometry();
  const Index group = group_size(problem.heads, geometry);
  return {.sequence = index,
          .row = rows.begin,
          .first = sequence.first + rows.begin,
          .head = head * group,
          .group = group,
          .count = rows.size() * group,
          .key_dim = geometry.key_dim,
          .value_lanes = kv::ValueCells<typename S::Values>{geometry.value_dim}.lanes()};
}

// The smallest range that holds what every row of the tile sees.
template <Mask M>
Range visible_to(const QueryTile& queries, const M& mask) {
  Range all = mask.visible(queries.first);
  for (Index q = queries.group; q < queries.count; q += queries.group) {
    const Range row = mask.visible(queries.first + q / queries.group);
    all = {std::min(all.begin, row.begin), std::max(all.end, row.end)};
  }
  return all;
}

inline Range segment_at(Index segment, const Range& visible) noexcept {
  return {std::max(visible.begin, segment * kSegmentKeys),
          std::min(visible.end, (segment + 1) * kSegmentKeys)};
}

// The segments that have visible keys.
inline Range segments_of(const Range& visible) noexcept {
  return {visible.begin / kSegmentKeys, ceil_div(visible.end, kSegmentKeys)};
}

// Where the output of one query goes.
template <kv::Store S>
std::span<float> out_row(const Sequence<S>& sequence, const Problem& problem,
                         const QueryTile& queries, Index q) {
  const Index dim = sequence.store->geometry().value_dim;
  return {sequence.out + queries.row_of(q) * problem.out_stride + queries.head_of(q) * dim,
          static_cast<std::size_t>(dim)};
}

template <kv::Store S>
void finish_row(const Sequence<S>& sequence, const Problem& problem, const QueryTile& queries,
                Index q, kernels::SoftmaxPart total) {
  const std::span<float> out = out_row(sequence, problem, queries, q);
  if (problem.sinks != nullptr) kernels::add_sink(total, out, problem.sinks[queries.head_of(q)]);
  kernels::finish(total, out);
  if (sequence.log_sum_exp != nullptr) {
    sequence.log_sum_exp[queries.row_of(q) * problem.heads + queries.head_of(q)] =
        kernels::log_sum_exp(total);
  }
}

// Every segment of one tile of queries, one after the other, merged as they close.
template <kv::Store S, Mask M, Score F>
void attend_tile(const Sequence<S>& sequence, const Problem& problem, const QueryTile& queries,
                 const M& mask, const F& transform, const Scratch::Worker& worker) {
  const Range visible = visible_to(queries, mask);
  gather<typename S::Keys>(sequence.queries, problem, queries, worker);
  std::fill_n(worker.totals, queries.count, kernels::SoftmaxPart{});
  const Range segments = segments_of(visible);
  for (Index segment = segments.begin; segment < segments.end; ++segment) {
    attend_segment(queries, *sequence.store, problem.layer, segment_at(segment, visible), mask,
                   transform, worker);
    for (Index q = 0; q < queries.count; ++q) {
      const std::span<float> out = out_row(sequence, problem, queries, q);
      kernels::merge(worker.totals[q], out, worker.parts[q],
                     {worker.values + q * queries.value_lanes, out.size()});
    }
  }
  for (Index q = 0; q < queries.count; ++q) {
    finish_row(sequence, problem, queries, q, worker.totals[q]);
  }
}

// One row whose segments go to different workers and are merged when all are there.
template <kv::Store S, Mask M, Score F>
void attend_split(const Sequence<S>& sequence, Index index, const Problem& problem, const M& mask,
                  const F& transform, Scratch& scratch, Executor& executor) {
  const kv::Geometry& geometry = sequence.store->geometry();
  const auto queries_of = [&](Index head) {
    return query_tile(sequence, index, problem, head, {0, 1});
  };
  const Range visible = visible_to(queries_of(0), mask);
  const Index first = segments_of(visible).begin;
  const Index segments = segments_of(visible).size();
  executor.parallel_for(geometry.heads * segments, [&](Index item, Index worker_index) {
    const QueryTile queries = queries_of(item / segments);
    Scratch::Worker worker = scratch.worker(worker_index);
    gather<typename S::Keys>(sequence.queries, problem, queries, worker);
    worker.values = scratch.slot_values(item);
    worker.parts = scratch.slot_parts(item);
    attend_segment(queries, *sequence.store, problem.layer,
                   segment_at(first + item % segments, visible), mask, transform, worker);
  });
  for (Index head = 0; head < geometry.heads; ++head) {
    const QueryTile queries = queries_of(head);
    for (Index q = 0; q < queries.count; ++q) {
      const std::span<float> out = out_row(sequence, problem, queries, q);
      kernels::SoftmaxPart total;
      for (Index item = head * segments; item < (head + 1) * segments; ++item) {
        kernels::merge(total, out, scratch.slot_parts(item)[q],
                       {scratch.slot_values(item) + q * queries.value_lanes, out.size()});
      }
      finish_row(sequence, problem, queries, q, total);
    }
  }
}

template <kv::Store S, Mask M>
void check(const Sequence<S>& sequence, const Problem& problem, const M& mask,
           const Scratch& scratch, const Executor& executor) {
  const kv::Geometry& geometry = sequence.store->geometry();
  expects(problem.heads > 0 && problem.heads % geometry.heads == 0,
          "attention::attend: ", problem.heads, " query heads over ", geometry.heads, " key heads");
  expects(problem.layer >= 0 && problem.layer < geometry.layers, "attention::attend: layer ",
          problem.layer, " of ", geometry.layers);
  expects(scratch.fits(geometry, problem.heads, executor.threads()),
          "attention::attend: the scratch was made for other heads or fewer threads than ",
          executor.threads());
  expects(sequence.rows >= 0, "attention::attend: a sequence of ", sequence.rows, " rows");
  if (sequence.rows == 0) return;
  const Position begin = mask.visible(sequence.first).begin;
  const Position end = mask.visible(sequence.first + sequence.rows - 1).end;
  const auto spans = sequence.store->panel_spans(problem.layer, 0);
  const Position room = std::ranges::empty(spans)
                            ? 0
                            : std::min((*(spans.end() - 1)).end(), sequence.store->capacity());
  const Position first = sequence.store->begin(problem.layer);
  const Position sinks = sequence.store->sink_tokens();
  expects(begin >= first || first <= sinks || end <= std::max(begin, sinks),
          "attention::attend: a row that sees position ", begin,
          " of a store that holds those from ", first, " on");
  expects(end <= room, "attention::attend: a row that sees position ", end - 1,
          " of a store with room for ", room, " tokens");
}

// Whether a lone row leaves workers idle that could take some of its segments.
template <kv::Store S, Mask M>
bool split_pays(std::span<const Sequence<S>> sequences, const M& mask, const Scratch& scratch,
                const Executor& executor) {
  if (sequences.size() != 1 || sequences[0].rows != 1 || executor.threads() == 1) return false;
  const kv::Geometry& geometry = sequences[0].store->geometry();
  const Range visible = mask.visible(sequences[0].first);
  const Index segments = segments_of(visible).size();
  return segments > 1 && geometry.heads % executor.threads() != 0 &&
         geometry.heads < 8 * executor.threads() && geometry.heads * segments <= scratch.slots();
}

}  // namespace detail

template <kv::Store S, Mask M, Score F>
void attend(std::span<const Sequence<S>> sequences, const Problem& problem, const M& mask,
            const F& transform, Scratch& scratch, Executor& executor) {
  for (const Sequence<S>& sequence : sequences) {
    detail::check(sequence, problem, mask, scratch, executor);
  }
  if (detail::split_pays(sequences, mask, scratch, executor)) {
    return detail::attend_split(sequences[0], 0, problem, mask, transform, scratch, executor);
  }
  std::vector<Index>& firsts = scratch.first_items();
  firsts.assign(1, 0);
  for (const Sequence<S>& sequence : sequences) {
    const kv::Geometry& geometry = sequence.store->geometry();
    const Index rows = tile_rows(group_size(problem.heads, geometry));
    firsts.push_back(firsts.back() + geometry.heads * ceil_div(sequence.rows, rows));
  }
  executor.parallel_for(firsts.back(), [&](Index item, Index worker) {
    const auto after = std::upper_bound(firsts.begin(), firsts.end(), item);
    const Index index = after - firsts.begin() - 1;
    const Sequence<S>& sequence = sequences[static_cast<std::size_t>(index)];
    const kv::Geometry& geometry = sequence.store->geometry();
    const Index rows = tile_rows(group_size(problem.heads, geometry));
    const Index within = item - *(after - 1);
    const Index first = within / geometry.heads * rows;
    detail::attend_tile(sequence, problem,
                        detail::query_tile(sequence, index, problem, within % geometry.heads,
                                           {first, std::min(first + rows, sequence.rows)}),
                        mask, transform, scratch.worker(worker));
  });
}

}  // namespace decant::inline DECANT_ABI::attention
