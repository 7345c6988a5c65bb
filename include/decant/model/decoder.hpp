// decant/model/decoder.hpp - a decoder-only transformer, and the one operation it has.
//
// A step appends tokens to stores and gives logits of the rows that asked. Prefill, decode, chunks
// and batches are steps; recomputing is a step on an empty store. Everything is checked before
// anything is written: rows go into reserved slots, and a store's length is published last.
//
// Tested by   tests/model/step_test.cpp, tests/law/*_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/layer.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/rows.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/weights_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

namespace decant::inline v0::model {

// Errors   std::invalid_argument when configuration and weights do not fit each other
// Cost     a step of r rows over n keys: r * (parameters + layers * heads * n * (key_dim +
//          value_dim)) multiply-adds; allocates nothing, but for a longer list of pages now and
//          then
// Threads  const: many threads may step at once, each with its own batch, workspace and stores, and
//          with pools of their own where stores share one
class Decoder {
 public:
  Decoder(Config config, Weights weights)
      : config_(std::move(config)), weights_(std::move(weights)) {
    check(config_);
    check(config_, weights_);
  }

  const Config& config() const noexcept { return config_; }
  const Weights& weights() const noexcept { return weights_; }
  // How many positions it has learned; where it turns them, all there are.
  Index positions() const noexcept {
    return weights_.positions.empty() ? std::numeric_limits<Index>::max() : config_.max_positions;
  }

  // Appends the batch's tokens to its stores; workspace.logits(i) then holds the rows wanted. All
  // or nothing: after an exception every store holds what it held, but that a ring may have let go
  // of what lies beyond its window, and a paged store copied a page. Where an entry has more rows
  // than its store takes at once (a ring's chunk), entries run one by one and in parts, which
  // changes no bit but allocates; stores may then be left with all or the first of their rows.
  // Positions beyond max_positions, where they are turned and not learned, are computed; what the
  // model makes of them is its own affair.
  //
  // Errors   std::invalid_argument (a token outside the vocabulary, more rows than the workspace
  //          has, a store or workspace made for another model, a position beyond learned ones),
  //          CacheFull
  template <kv::Store S>
  void step(Batch<S>& batch, Workspace& workspace) const;

 private:
  template <kv::Store S>
  void check_step(const Batch<S>& batch, const Workspace& workspace) const {
    const Limits& limits = workspace.limits();
    expects(batch.rows() > 0, "model::Decoder::step: no rows");
    expects(workspace.config() == config_,
            "model::Decoder::step: the workspace was made for another configuration");
    expects(batch.rows() <= limits.rows, "model::Decoder::step: ", batch.rows(),
            " rows, the workspace has ", limits.rows);
    expects(batch.logit_rows() <= limits.logit_rows, "model::Decoder::step: ", batch.logit_rows(),
            " rows of logits, the workspace has ", limits.logit_rows);
    expects(std::ssize(batch.entries()) <= limits.sequences,
            "model::Decoder::step: ", batch.entries().size(), " sequences, the workspace has ",
            limits.sequences);
    for (Token token : batch.tokens()) {
      expects(token >= 0 && token < config_.vocabulary, "model::Decoder::step: token ", token,
              " is not in [0, ", config_.vocabulary, ")");
    }
    for (const auto& entry : batch.entries()) {
      check(config_, *entry.store, "model::Decoder::step");
      expects(entry.rows <= positions() - entry.store->end(), "model::Decoder::step: position ",
              entry.store->end() + entry.rows - 1, " is beyond the ", positions(), " learned ones");
    }
  }

  // Room in every store, or in none.
  template <kv::Store S>
  static void reserve(const Batch<S>& batch) {
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

  template <class Entries>
  static void release(const Entries& entries) {
    for (const auto& entry : entries) entry.store->rewind(entry.store->end());
  }

  // The rows' first numbers, and the angles of their positions.
  template <kv::Store S>
  void embed(const Batch<S>& batch, Workspace& workspace) const {
    StepBuffers& buffers = workspace.buffers();
    const Index pairs = rotary_pairs(config_);
    const auto begin_row = [&](Index row) {
      const Position position = batch.entry_of(row).position(row);
      embed_row(
          batch.tokens()[static_cast<std::size_t>(row)], position,
          detail::numbers(buffers.stream.data() + row * config_.hidden_size, config_.hidden_size));
      attention::angles(position, buffers.frequencies,
                        detail::numbers(buffers.cosines.data() + row * pairs, pairs),
                        detail::numbers(buffers.sines.data() + row * pairs, pairs));
    };
    const auto work = [&] { return detail::row_work(batch.rows(), 2 * config_.hidden_size, 0); };
    profiled(workspace.profile(), Operation::embedding, work,
             [&] { detail::for_rows(batch.rows(), workspace.executor(), begin_row); });
  }

  void embed_row(Token token, Position position, std::span<float> out) const {
    weights_.embedding.row(token, out);
    if (config_.embedding_scale != 1.0f) {
      for (float& number : out) number *= config_.embedding_scale;
    }
    if (weights_.positions.empty()) return;
    const float* learned = weights_.positions.data() + position * config_.hidden_size;
    for (std::size_t n = 0; n < out.size(); ++n) out[n] += learned[n];
  }

  // Logits of the rows that asked for them, from row `first` on: their streams, normed and
  // multiplied.
  template <kv::Store S>
  void project(const Batch<S>& batch, Workspace& workspace, Index first) const {
    StepBuffers& buffers = workspace.buffers();
    Index wanted = 0;
    const auto take = [&](Index row) {
      detail::normalise(
          config_, weights_.output_norm,
          detail::numbers(buffers.stream.data() + row * config_.hidden_size, config_.hidden_size),
          detail::numbers(buffers.normed.data() + wanted * config_.hidden_size,
                          config_.hidden_size));
      wanted += 1;
    };
    for (const auto& entry : batch.entries()) {
      const Index end = entry.first_row + entry.rows;
      if (entry.wanted == Logits::none) continue;
      for (Index row = entry.wanted == Logits::all ? entry.first_row : end - 1; row < end; ++row) {
        take(row);
      }
    }
    if (wanted == 0) return;
    const bool tied = weights_.output.matrix.empty();
    const kernels::Matrix& output = tied ? weights_.embedding : weights_.output.matrix;
    detail::multiply(output,
                     {.rows = wanted,
                      .in = buffers.normed.data(),
                      .in_stride = config_.hidden_size,
                      .out = buffers.logits.data() + first * config_.vocabulary,
                      .out_stride = config_.vocabulary,
                      .bias = detail::bias_of(weights_.output)},
                     workspace);
  }

  // The rows of a batch together, their logits from row `first_logits` on.
  template <kv::Store S>
  void run(Batch<S>& batch, Workspace& workspace, Index first_logits) const {
    reserve(batch);
    try {
      embed(batch, workspace);
      for (Index layer = 0; layer < config_.layers; ++layer) {
        detail::run_layer(config_, weights_.layers[static_cast<std::size_t>(layer)], layer, batch,
                          workspace);
      }
      project(batch, workspace, first_logits);
    } catch (...) {  // a user's executor may throw
      release(batch.entries());
      throw;
    }
    for (const auto& entry : batch.entries()) entry.store->publish(entry.rows);
  }

  // The entries one by one, each in parts that its store takes.
  template <kv::Store S>
  void run_in_parts(const Batch<S>& batch, Workspace& workspace) const {
    for (const auto& entry : batch.entries()) {
      const Index room = entry.store->capacity() - entry.store->end();
      expects<CacheFull>(entry.rows <= room, "model::Decoder::step: ", entry.rows,
                         " rows for a store with room for ", room);
    }
    Batch<S> part;
    Index logits = 0;
    for (const auto& entry : batch.entries()) {
      for (Index row = 0; row < entry.rows;) {
        const Index rows = std::min(entry.store->chunk(), entry.rows - row);
        const bool whole = entry.wanted != Logits::last || row + rows == entry.rows;
        part.clear();
        part.add(*entry.store,
                 batch.tokens().subspan(static_cast<std::size_t>(entry.first_row + row),
                                        static_cast<std::size_t>(rows)),
                 whole ? entry.wanted : Logits::none);
        run(part, workspace, logits);
        logits += part.logit_rows();
        row += rows;
      }
    }
  }

  Config config_;
  Weights weights_;
};

// Outside of the class, so that a user's `extern template` keeps others from compiling it again.
template <kv::Store S>
void Decoder::step(Batch<S>& batch, Workspace& workspace) const {
  check_step(batch, workspace);
  workspace.buffers().logit_rows = 0;
  const bool together = std::ranges::all_of(
      batch.entries(), [](const auto& entry) { return entry.rows <= entry.store->chunk(); });
  together ? run(batch, workspace, 0) : run_in_parts(batch, workspace);
  workspace.buffers().logit_rows = batch.logit_rows();
}

}  // namespace decant::inline v0::model
