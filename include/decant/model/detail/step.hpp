// decant/model/detail/step.hpp - defines Decoder::step(): all layers over the rows of a batch.
//
// Tested by   tests/model/step_test.cpp, tests/law/*_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/detail/adapt.hpp>
#include <decant/model/detail/layer.hpp>
#include <decant/model/detail/rows.hpp>
#include <decant/model/detail/step_buffers.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::model {

namespace detail {

template <kv::Store S>
void check_step(const Decoder& decoder, const Batch<S>& batch, const Workspace& workspace) {
  const Limits& limits = workspace.limits();
  expects(batch.rows() > 0, "model::Decoder::step: no rows");
  expects(workspace.config() == decoder.config(),
          "model::Decoder::step: the workspace was made for another configuration");
  expects(batch.rows() <= limits.rows, "model::Decoder::step: ", batch.rows(),
          " rows, the workspace has ", limits.rows);
  expects(batch.logit_rows() <= limits.logit_rows, "model::Decoder::step: ", batch.logit_rows(),
          " rows of logits, the workspace has ", limits.logit_rows);
  expects(batch.hidden_rows() <= limits.hidden_rows, "model::Decoder::step: ", batch.hidden_rows(),
          " rows of hidden states, the workspace has ", limits.hidden_rows);
  expects(std::ssize(batch.entries()) <= limits.sequences,
          "model::Decoder::step: ", batch.entries().size(), " sequences, the workspace has ",
          limits.sequences);
  for (Token token : batch.tokens()) {
    expects(token >= 0 && token < decoder.config().vocabulary, "model::Decoder::step: token ",
            token, " is not in [0, ", decoder.config().vocabulary, ")");
  }
  for (const auto& entry : batch.entries()) {
    check(decoder.config(), *entry.store, "model::Decoder::step");
    expects(entry.rows <= decoder.positions() - entry.store->end(),
            "model::Decoder::step: position ", entry.store->end() + entry.rows - 1,
            " is beyond the ", decoder.positions(), " learned ones");
    expects(entry.adapter == nullptr || entry.adapter->config() == decoder.config(),
            "model::Decoder::step: an adapter that was made for another configuration");
  }
}

template <class Entries>
void release(const Entries& entries) {
  for (const auto& entry : entries) entry.store->rewind(entry.store->end());
}

// Reserves slots in every store, or in none.
template <kv::Store S>
void reserve(const Batch<S>& batch) {
  std::size_t done = 0;
  try {
    for (const auto& entry : batch.entries()) {
      entry.store->reserve(entry.rows);
      done += 1;
    }
  } catch (...) {
    release(batch.entries().first(done));
    throw;
  }
}

inline void embed_row(const Decoder& decoder, Token token, Position position,
                      std::span<float> out) {
  decoder.weights().embedding.row(token, out);
  if (decoder.config().embedding_scale != 1.0f) {
    for (float& element : out) element *= decoder.config().embedding_scale;
  }
  if (decoder.weights().positions.empty()) return;
  const float* learned =
      decoder.weights().positions.data() + position * decoder.config().hidden_size;
  for (std::size_t n = 0; n < out.size(); ++n) out[n] += learned[n];
}

// Computes the rows' embeddings, and the angles of their positions.
template <kv::Store S>
void embed(const Decoder& decoder, const Batch<S>& batch, Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  const Index angles = rotary_pairs(decoder.config());
  const auto begin_row = [&](Index row) {
    const Position position = batch.entry_of(row).position(row);
    embed_row(decoder, batch.tokens()[static_cast<std::size_t>(row)], position,
              elements(step.stream.data() + row * decoder.config().hidden_size,
                       decoder.config().hidden_size));
    attention::angles(position, step.frequencies,
                      elements(step.cosines.data() + row * angles, angles),
                      elements(step.sines.data() + row * angles, angles));
  };
  const auto work = [&] { return row_work(batch.rows(), 2 * decoder.config().hidden_size, 0); };
  profiled(workspace.profile(), Operation::embedding, work,
           [&] { for_rows(batch.rows(), workspace.executor(), begin_row); });
}

// Writes the hidden states of rows of a batch: of all, of the last or of none of an entry, as
// wanted(entry) says. Returns of how many.
template <kv::Store S, class F>
Index write_hidden(const Decoder& decoder, const Batch<S>& batch, StepBuffers& step, float* out,
                   F&& wanted) {
  const Index size = decoder.config().hidden_size;
  Index count = 0;
  for (const auto& entry : batch.entries()) {
    const Hidden rows = wanted(entry);
    if (rows == Hidden::none) continue;
    const Index end = entry.first_row + entry.rows;
    for (Index row = rows == Hidden::all ? entry.first_row : end - 1; row < end; ++row) {
      normalise(decoder.config(), decoder.weights().output_norm,
                elements(step.stream.data() + row * size, size),
                elements(out + count * size, size));
      count += 1;
    }
  }
  return count;
}

// Hidden states of the rows that asked for them, from row `first` on.
template <kv::Store S>
void give_hidden(const Decoder& decoder, const Batch<S>& batch, Workspace& workspace, Index first) {
  StepBuffers& step = buffers(workspace);
  float* out = step.hidden.data() + first * decoder.config().hidden_size;
  write_hidden(decoder, batch, step, out, [](const auto& entry) { return entry.hidden; });
}

// Logits of the rows that asked for them, from row `first` on: their hidden states, multiplied.
template <kv::Store S>
void project(const Decoder& decoder, const Batch<S>& batch, Workspace& workspace, Index first) {
  StepBuffers& step = buffers(workspace);
  const Index wanted =
      write_hidden(decoder, batch, step, step.normed.data(), [](const auto& entry) {
        if (entry.wanted == Logits::none) return Hidden::none;
        return entry.wanted == Logits::all ? Hidden::all : Hidden::last;
      });
  if (wanted == 0) return;
  const bool tied = decoder.weights().output.matrix.empty();
  const kernels::Matrix& output =
      tied ? decoder.weights().embedding : decoder.weights().output.matrix;
  multiply(output,
           {.rows = wanted,
            .in = step.normed.data(),
            .in_stride = decoder.config().hidden_size,
            .out = step.logits.data() + first * decoder.config().vocabulary,
            .out_stride = decoder.config().vocabulary,
            .bias = bias_of(decoder.weights().output)},
           workspace);
}

// Runs the rows of a batch together; their logits begin with row `first_logits`, and their hidden
// states with row `first_hidden`.
template <kv::Store S>
void run(const Decoder& decoder, Batch<S>& batch, Workspace& workspace, Index first_logits,
         Index first_hidden) {
  reserve(batch);
  list_adapted_rows(batch, buffers(workspace).adapters);
  try {
    embed(decoder, batch, workspace);
    for (Index layer = 0; layer < decoder.config().layers; ++layer) {
      run_layer(decoder.config(), decoder.weights().layers[static_cast<std::size_t>(layer)], layer,
                batch, workspace);
    }
    give_hidden(decoder, batch, workspace, first_hidden);
    project(decoder, batch, workspace, first_logits);
  } catch (...) {  // a user's executor may throw
    release(batch.entries());
    throw;
  }
  for (const auto& entry : batch.entries()) entry.store->publish(entry.rows);
}

// Runs the entries one by one, each in parts that its store takes.
template <kv::Store S>
void run_in_parts(const Decoder& decoder, const Batch<S>& batch, Workspace& workspace) {
  for (const auto& entry : batch.entries()) {
    const Index room = entry.store->capacity() - entry.store->end();
    expects<CacheFull>(entry.rows <= room, "model::Decoder::step: ", entry.rows,
                       " rows for a store with room for ", room);
  }
  Batch<S> part;
  Index logits = 0, hidden = 0;
  for (const auto& entry : batch.entries()) {
    for (Index row = 0; row < entry.rows;) {
      const Index rows = std::min(entry.store->chunk(), entry.rows - row);
      const bool last = row + rows == entry.rows;
      part.clear();
      part.add(*entry.store,
               batch.tokens().subspan(static_cast<std::size_t>(entry.first_row + row),
                                      static_cast<std::size_t>(rows)),
               entry.wanted == Logits::last && !last ? Logits::none : entry.wanted, entry.adapter,
               entry.hidden == Hidden::last && !last ? Hidden::none : entry.hidden);
      run(decoder, part, workspace, logits, hidden);
      logits += part.logit_rows();
      hidden += part.hidden_rows();
      row += rows;
    }
  }
}

}  // namespace detail

template <kv::Store S>
void Decoder::step(Batch<S>& batch, Workspace& workspace) const {
  detail::check_step(*this, batch, workspace);
  detail::StepBuffers& buffers = detail::buffers(workspace);
  buffers.logit_rows = buffers.hidden_rows = 0;
  const bool together = std::ranges::all_of(
      batch.entries(), [](const auto& entry) { return entry.rows <= entry.store->chunk(); });
  together ? detail::run(*this, batch, workspace, 0, 0)
           : detail::run_in_parts(*this, batch, workspace);
  buffers.logit_rows = batch.logit_rows();
  buffers.hidden_rows = batch.hidden_rows();
}

}  // namespace decant::inline DECANT_ABI::model
