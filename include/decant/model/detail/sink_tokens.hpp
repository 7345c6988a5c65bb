// decant/model/detail/sink_tokens.hpp - rows that see the first tokens of their sequence beside a
// window.
//
// A model that was trained without windows gives its first tokens weight that it has no other use
// for, and falls apart when a window leaves them behind. They are seen as if they stood right
// before the window: keys stay as they were rotated, and the row's query is rotated a second time,
// for its position behind the sink tokens and a full window. Both results merge.
//
// Source      Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks",
//             arXiv:2309.17453
// Tested by   tests/model/step_test.cpp, against tests/reference/decoder.hpp
#pragma once

#include <decant/attention/detail/attend.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/detail/rows.hpp>
#include <decant/model/detail/step_buffers.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::model::detail {

// The position of a row as its sink tokens see it: its own, or from a full window on right behind
// it.
inline Position sink_query_position(const Config& config, Index layer, Position position) noexcept {
  return std::min(position, config.sink_tokens + config.window(layer) - 1);
}

// The angles of the place behind a full window.
inline void rotate_behind_window(const Config& config, Index layer, StepBuffers& step) {
  const Position behind = config.sink_tokens + config.window(layer) - 1;
  attention::angles(behind, step.frequencies, step.sinks.cosines, step.sinks.sines);
}

// Merges what every row and head has of the sink tokens into what it has of its window.
inline void merge_sinks(const Config& config, Index rows, Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  for_rows(rows, workspace.executor(), [&](Index row) {
    for (Index at = row * config.heads; at < (row + 1) * config.heads; ++at) {
      const Index first = at * config.value_dim;
      const auto values = elements(step.attended.data() + first, config.value_dim);
      kernels::SoftmaxPart part = {step.sinks.log_sum_exp.data()[at], 1.0f};
      kernels::merge(part, values, {step.sinks.sink_log_sum_exp.data()[at], 1.0f},
                     elements(step.sinks.attended.data() + first, config.value_dim));
      kernels::finish(part, values);
    }
  });
}

// Attention of the rows to their window and to the sink tokens, merged into the sequences' `out`.
template <kv::Store S>
void attend_beside_sinks(const Config& config, const attention::Problem& problem, Batch<S>& batch,
                         Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  SinkTokenBuffers& sinks = step.sinks;
  const auto attend = [&](const attention::Problem& part, const attention::Causal& mask) {
    attention::attend(std::span<const attention::Sequence<S>>(sequences(batch)), part, mask,
                      attention::Plain{}, step.scratch, workspace.executor());
  };
  const auto first_row = [&](std::size_t at) { return batch.entries()[at].first_row; };
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    sequences(batch)[at].log_sum_exp = sinks.log_sum_exp.data() + first_row(at) * config.heads;
  }
  attend(problem, {.window = config.window(problem.layer), .begin = config.sink_tokens});
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    attention::Sequence<S>& sequence = sequences(batch)[at];
    const Index row = first_row(at);
    sequence.queries = sinks.queries.data() + row * config.heads * config.key_dim;
    sequence.out = sinks.attended.data() + row * problem.out_stride;
    sequence.log_sum_exp = sinks.sink_log_sum_exp.data() + row * config.heads;
  }
  attention::Problem part = problem;
  part.query_stride = config.heads * config.key_dim;
  attend(part, {.end = config.sink_tokens});
  for (auto& sequence : sequences(batch)) sequence.log_sum_exp = nullptr;
  merge_sinks(config, batch.rows(), workspace);
}

}  // namespace decant::inline DECANT_ABI::model::detail
