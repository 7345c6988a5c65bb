// decant/checkpoints/detail/checkpoint_config.hpp - what a checkpoint says about its model before
// its weights are read.
//
// Readers of configurations (config.json, GGUF metadata) produce it, readers of weights consume it.
//
// Tested by   tests/checkpoints/hf_config_test.cpp, tests/checkpoints/gguf_config_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/model/config.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline v0::checkpoints::detail {

// Which block the tensors of a checkpoint make up.
enum class Naming { llama, gpt2 };

// A model::Config, and what a loader of its weights must know besides.
struct CheckpointConfig {
  model::Config model;
  Naming naming = Naming::llama;
  bool tied = false;  // the output matrix is the embedding
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool feed_forward_bias = false;
  bool query_key_norm = false;
  bool norm_plus_one = false;  // a stored norm weight w means 1 + w
  std::vector<Token> end_tokens;
  std::optional<Token> begin_token;
  std::vector<std::string> warnings;  // what was odd, but not wrong
};

inline constexpr Index kMaxExtent = Index{1} << 31;
inline constexpr Index kMaxLayers = Index{1} << 16;

// Whether the vocabulary has the special token `id`; one that no text can contain is warned of on.
inline bool has_token(CheckpointConfig& config, Index id, std::string_view place) {
  const bool inside = id >= 0 && id < config.model.vocabulary;
  if (!inside) {
    config.warnings.push_back(sentence(place, " ", id, " is outside the vocabulary of ",
                                       config.model.vocabulary, " and is ignored"));
  }
  return inside;
}

}  // namespace decant::inline v0::checkpoints::detail
