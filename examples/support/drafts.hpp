// examples/support/drafts.hpp - speculative decoding, as options.
//
// Tested by   tests/examples/agreements.cmake
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/codec/plain.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/model_drafter.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace examples {

struct DraftOptions {
  std::string model;
  bool ngram = false;
};

inline void add_drafts(CommandLine& command, DraftOptions& options) {
  command.add_nonempty_text("--draft-model", options.model,
                            "a smaller model of the same tokens for draft tokens", "FOLDER|FILE");
  command.add_flag("--draft-ngram", options.ngram,
                   "draft tokens by n-gram look-up; the text is the same");
}

// Any drafter, behind one type, so that generate() is compiled once for each kind of store.
struct Drafter {
  std::function<std::span<const decant::Token>(const decant::decoding::History&, Index)> propose;
};

// A draft model and its memory.
class DraftModel {
 public:
  using Store = decant::kv::Contiguous<decant::codec::BF16>;

  DraftModel(decant::checkpoints::Checkpoint checkpoint, Index capacity, Index rows,
             decant::Executor& executor, const decant::decoding::GenerateOptions& generate)
      : decoder_(std::move(checkpoint.config), std::move(checkpoint.weights)),
        store_(decoder_.config().geometry(), capacity),
        workspace_(decoder_.config(), {.rows = rows}, executor),
        drafter_(decoder_, store_, workspace_, generate.sampler, generate.sequence) {}

  std::span<const decant::Token> propose(const decant::decoding::History& history, Index most) {
    return drafter_.propose(history, most);
  }

 private:
  decant::model::Decoder decoder_;
  Store store_;
  decant::model::Workspace workspace_;
  decant::decoding::ModelDrafter<Store> drafter_;
};

// The given drafter, for a model with that tokenizer and a store for `capacity` tokens.
inline Drafter drafter_of(const DraftOptions& options,
                          const decant::checkpoints::LoadOptions& load_options,
                          const decant::decoding::GenerateOptions& generate,
                          const decant::text::Tokenizer& tokenizer, Index capacity,
                          decant::model::Workspace& workspace) {
  using decant::decoding::History;
  if (options.ngram) {
    return {[drafter = decant::decoding::NgramDrafter{}](const History& history, Index most) {
      return drafter.propose(history, most);
    }};
  }
  if (options.model.empty()) {
    return {[](const History&, Index) { return std::span<const decant::Token>(); }};
  }
  decant::checkpoints::Checkpoint checkpoint =
      load_draft_model(options.model, tokenizer, load_options);
  const Index room = std::min(capacity, checkpoint.config.max_positions);
  const auto model = std::make_shared<DraftModel>(
      std::move(checkpoint), room, workspace.limits().rows, workspace.executor(), generate);
  return {[model](const History& history, Index most) { return model->propose(history, most); }};
}

}  // namespace examples
