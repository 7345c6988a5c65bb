// decant/attention/attend.hpp - softmax(scale q·k) v over stores, for prefill and decode alike.
//
// Work is cut into (sequence, key head, block of rows) and, where that leaves workers idle, a
// single row's context into segments of 1024 keys. Segments always merge in ascending order,
// whoever computed them, so the cut cannot change a bit.
//
//   for each row and query head h:
//     s[j] = score(scale * q[h] · k[j][h / group])       for the visible j
//     out[h] = sum over j of softmax(s)[j] * v[j][h / group],  zeros where nothing is visible
//
// Where keys are whole numbers, scale * q is rounded to such first, with a scale for each row
// and head (query_tile.hpp).
//
// A learned sink of a head is one more score in its softmax, and adds no value.
//
// Source      Dao et al. 2022, arXiv:2205.14135; Ainslie et al. 2023, arXiv:2305.13245 (groups)
// Tested by   tests/attention/{attend,sink}_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/attention/query_tile.hpp>
#include <decant/attention/score.hpp>
#include <decant/attention/segment.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/cells.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/store.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <span>
#include <vector>

namespace decant::inline v0::attention {

namespace detail {

template <kv::Store S>
QueryTile query_tile_at(const Sequence<S>& sequence, Index index, const Problem& problem,
                        Index head, Range rows) {
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

// The smallest range that holds what every row of the block sees.
template <Mask M>
Range visible_to(const QueryTile& block, const M& mask) {
  Range all = mask.visible(block.first);
  for (Index q = block.group; q < block.count; q += block.group) {
    const Range row = mask.visible(block.first + q / block.group);
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

// The values of one query in `out`.
template <kv::Store S>
std::span<float> out_row(const Sequence<S>& sequence, const Problem& problem,
                         const QueryTile& block, Index q) {
  const Index dim = sequence.store->geometry().value_dim;
  return {sequence.out + block.row_of(q) * problem.out_stride + block.head_of(q) * dim,
          static_cast<std::size_t>(dim)};
}

template <kv::Store S>
void finish_row(const Sequence<S>& sequence, const Problem& problem, const QueryTile& block,
                Index q, kernels::SoftmaxPart total) {
  const std::span<float> out = out_row(sequence, problem, block, q);
  if (problem.sinks != nullptr) kernels::add_sink(total, out, problem.sinks[block.head_of(q)]);
  kernels::finish(total, out);
  if (sequence.log_sum_exp != nullptr) {
    sequence.log_sum_exp[block.row_of(q) * problem.heads + block.head_of(q)] =
        kernels::log_sum_exp(total);
  }
}

// Every segment of one block, one after the other, merged as they close.
template <kv::Store S, Mask M, Score F>
void attend_block(const Sequence<S>& sequence, const Problem& problem, const QueryTile& block,
                  const M& mask, const F& transform, const Scratch::Worker& worker) {
  const Range visible = visible_to(block, mask);
  gather<typename S::Keys>(sequence.queries, problem, block, worker);
  std::fill_n(worker.totals, block.count, kernels::SoftmaxPart{});
  const Range segments = segments_of(visible);
  for (Index segment = segments.begin; segment < segments.end; ++segment) {
    attend_segment(block, *sequence.store, problem.layer, segment_at(segment, visible), mask,
                   transform, worker);
    for (Index q = 0; q < block.count; ++q) {
      const std::span<float> out = out_row(sequence, problem, block, q);
      kernels::merge(worker.totals[q], out, worker.parts[q],
                     {worker.values + q * block.value_lanes, out.size()});
    }
  }
  for (Index q = 0; q < block.count; ++q) {
    finish_row(sequence, problem, block, q, worker.totals[q]);
  }
}

// One row whose segments go to different workers and are merged when all are there.
template <kv::Store S, Mask M, Score F>
void attend_split(const Sequence<S>& sequence, Index index, const Problem& problem, const M& mask,
                  const F& transform, Scratch& scratch, Executor& executor) {
  const kv::Geometry& geometry = sequence.store->geometry();
  const auto block_of = [&](Index head) {
    return query_tile_at(sequence, index, problem, head, {0, 1});
  };
  const Range visible = visible_to(block_of(0), mask);
  const Index first = segments_of(visible).begin;
  const Index segments = segments_of(visible).size();
  executor.parallel_for(geometry.heads * segments, [&](Index item, Index worker_index) {
    const QueryTile block = block_of(item / segments);
    Scratch::Worker worker = scratch.worker(worker_index);
    gather<typename S::Keys>(sequence.queries, problem, block, worker);
    worker.values = scratch.slot_values(item);
    worker.parts = scratch.slot_parts(item);
    attend_segment(block, *sequence.store, problem.layer,
                   segment_at(first + item % segments, visible), mask, transform, worker);
  });
  for (Index head = 0; head < geometry.heads; ++head) {
    const QueryTile block = block_of(head);
    for (Index q = 0; q < block.count; ++q) {
      const std::span<float> out = out_row(sequence, problem, block, q);
      kernels::SoftmaxPart total;
      for (Index item = head * segments; item < (head + 1) * segments; ++item) {
        kernels::merge(total, out, scratch.slot_parts(item)[q],
                       {scratch.slot_values(item) + q * block.value_lanes, out.size()});
      }
      finish_row(sequence, problem, block, q, total);
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
  const auto blocks = sequence.store->panel_spans(problem.layer, 0);
  const Position room = std::ranges::empty(blocks)
                            ? 0
                            : std::min((*(blocks.end() - 1)).end(), sequence.store->capacity());
  const Position first = sequence.store->begin(problem.layer);
  const Position sinks = sequence.store->sink_tokens();
  expects(begin >= first || first <= sinks || end <= std::max(begin, sinks),
          "attention::attend: a row that sees position ", begin,
          " of a store that holds those from ", first, " on");
  expects(end <= room, "attention::attend: a row that sees position ", end - 1,
          " of a store with room for ", room, " tokens");
}

// Whether a lone row leaves workers idle that its segments could keep busy.
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

// Attention of every row of every sequence to the keys that `mask` lets it see.
//
// Precondition: keys and values have been put for every visible position; published or not does
// not matter.
//
// Errors   std::invalid_argument when the query heads are no multiple of a store's heads, a layer
//          does not exist, a store has no room for a visible position or holds it no more, or the
//          scratch was made for another problem
// Cost     rows * heads * visible keys * (key_dim + value_dim) multiply-adds; allocates nothing
//          for as many sequences as the scratch was made for
// Threads  stores are only read; scratch and out belong to the call
template <kv::Store S, Mask M = Causal, Score F = Plain>
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
    detail::attend_block(sequence, problem,
                         detail::query_tile_at(sequence, index, problem, within % geometry.heads,
                                               {first, std::min(first + rows, sequence.rows)}),
                         mask, transform, scratch.worker(worker));
  });
}

}  // namespace decant::inline v0::attention
