// decant/checkpoints/checkpoint.hpp - what a checkpoint holds, and how it is to be loaded.
//
// Tested by   tests/checkpoints/{checkpoint,load_options}_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/product.hpp>
#include <decant/model/config.hpp>
#include <decant/model/score_head.hpp>
#include <decant/model/weights.hpp>

#include <optional>
#include <string>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints {

// What `model::Decoder` takes, and what a loop around it wants to know.
struct Checkpoint {
  model::Config config;
  model::Weights weights;
  std::vector<Token> end_tokens;      // any of them ends a text; may be none
  std::optional<Token> begin_token;   // what the model expects a text to begin with
  std::vector<std::string> warnings;  // sentences for the user: odd, but not wrong
  model::ScoreHead score = {};        // of a classification or reward model; else without labels
};

// `weights` is the format of every matrix of a product, embedding and output included; without
// one, each stays in the format of its file. Norms, biases and learned positions are f32 always.
// `activations` says whether products quantise activations if their matrix is in bf16 or in blocks.
// A packed file has the format that it was packed in, and no other; `verify` compares all of its
// bytes with its checksum.
struct LoadOptions {
  std::optional<codec::Type> weights = std::nullopt;
  std::optional<kernels::Activations> activations = std::nullopt;
  bool verify = true;
};

}  // namespace decant::inline DECANT_ABI::checkpoints
