// decant/model/decoder.hpp - a decoder-only transformer, and the one operation it has.
//
// A step appends tokens to stores and gives logits of the rows that asked. Prefill, decode, chunks
// and batches are steps; recomputing is a step on an empty store. Everything is checked before
// anything is written: rows go into reserved slots, and a store's length is published last.
//
// Tested by   tests/model/step_test.cpp, tests/law/*_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/workspace.hpp>

#include <limits>

namespace decant::inline DECANT_ABI::model {

// Errors   std::invalid_argument when configuration and weights do not fit each other
// Cost     a step of r rows over n keys: r * (parameters + layers * heads * n * (key_dim +
//          value_dim)) multiply-adds; allocates nothing, except that a list of pages grows now and
//          then
// Threads  const: many threads may step at once, each with its own batch, workspace and stores;
//          stores of one pool are for one thread at a time
class Decoder {
 public:
  Decoder(Config config, Weights weights);

  const Config& config() const noexcept { return config_; }
  const Weights& weights() const noexcept { return weights_; }
  // How many positions it has learned; without a limit if positions are rotary.
  Index positions() const noexcept {
    return weights_.positions.empty() ? std::numeric_limits<Index>::max() : config_.max_positions;
  }

  // Appends the batch's tokens to its stores; workspace.logits(i) then holds the logits of the rows
  // that asked for them, and workspace.hidden(i) hidden states. All or nothing: after an exception
  // every store holds what it held, except that a ring may have dropped what lies beyond its
  // window, and a paged store may have copied a page. If an entry has more rows than its store
  // takes at once (a ring's chunk), entries run one by one and in parts, which changes no bit but
  // allocates; an exception may then leave stores with all or the first of their rows. Rotary
  // positions beyond max_positions are computed, though the model was not made for them.
  //
  // Errors   std::invalid_argument (a token outside the vocabulary, more rows than the workspace
  //          has, a store or workspace made for another model, a position beyond learned ones),
  //          CacheFull
  template <kv::Store S>
  void step(Batch<S>& batch, Workspace& workspace) const;

 private:
  Config config_;
  Weights weights_;
};

}  // namespace decant::inline DECANT_ABI::model

#if !defined(DECANT_COMPILED)
#include <decant/model/detail/decoder.hpp>
#include <decant/model/detail/step.hpp>
#endif
