// decant/model/sink_tokens.hpp - rows that see the first tokens of their sequence beside a window.
//
// A model that was trained without windows gives its first tokens weight that it has no other use
// for, and falls apart when a window leaves them behind. They are seen as if they stood right
// before the window: keys stay where they were turned, and the row's query is turned a second time,
// for the place that it has behind the kept tokens and a full window. Both results merge.
//
// Source      Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks",
//             arXiv:2309.17453
// Tested by   tests/model/step_test.cpp, against tests/reference/decoder.hpp
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/rows.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace decant::inline v0::model::detail {

// Where a row stands to the kept tokens: where it does, and from a full window on right behind it.
inline Position sink_query_position(const Config& config, Index layer, Position position) noexcept {
  return std::min(position, config.sink_tokens + config.window(layer) - 1);
}

// The angles of the place behind a full window.
inline void turn_behind_window(const Config& config, Index layer, StepBuffers& buffers) {
  const Position behind = config.sink_tokens + config.window(layer) - 1;
  attention::angles(behind, buffers.frequencies, buffers.sinks.cosines, buffers.sinks.sines);
}

// Adds what every row and head has of the kept tokens to what it has of its window.
inline void merge_sinks(const Config& config, Index rows, Workspace& workspace) {
  StepBuffers& buffers = workspace.buffers();
  for_rows(rows, workspace.executor(), [&](Index row) {
    for (Index at = row * config.heads; at < (row + 1) * config.heads; ++at) {
      const Index first = at * config.value_dim;
      const auto values = numbers(buffers.attended.data() + first, config.value_dim);
      kernels::SoftmaxPart part = {buffers.sinks.log_sum_exp.data()[at], 1.0f};
      kernels::merge(part, values, {buffers.sinks.sink_log_sum_exp.data()[at], 1.0f},
                     numbers(buffers.sinks.attended.data() + first, config.value_dim));
      kernels::finish(part, values);
    }
  });
}

// The window's part of the rows' attention, and the kept tokens', merged into what the sequences
// have as `out`.
template <kv::Store S>
void attend_beside_sinks(const Config& config, const attention::Problem& problem, Batch<S>& batch,
                         Workspace& workspace) {
  StepBuffers& buffers = workspace.buffers();
  SinkTokenBuffers& kept = buffers.sinks;
  const auto attend = [&](const attention::Problem& part, const attention::Causal& mask) {
    attention::attend(std::span<const attention::Sequence<S>>(batch.sequences()), part, mask,
                      attention::Plain{}, buffers.scratch, workspace.executor());
  };
  const auto first_row = [&](std::size_t at) { return batch.entries()[at].first_row; };
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    batch.sequences()[at].log_sum_exp = kept.log_sum_exp.data() + first_row(at) * config.heads;
  }
  attend(problem, {.window = config.window(problem.layer), .begin = config.sink_tokens});
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    attention::Sequence<S>& sequence = batch.sequences()[at];
    const Index row = first_row(at);
    sequence.queries = kept.queries.data() + row * config.heads * config.key_dim;
    sequence.out = kept.attended.data() + row * problem.out_stride;
    sequence.log_sum_exp = kept.sink_log_sum_exp.data() + row * config.heads;
  }
  attention::Problem part = problem;
  part.query_stride = config.heads * config.key_dim;
  attend(part, {.end = config.sink_tokens});
  for (auto& sequence : batch.sequences()) sequence.log_sum_exp = nullptr;
  merge_sinks(config, batch.rows(), workspace);
}

}  // namespace decant::inline v0::model::detail
