// decant/checkpoints/detail/checkpoint_config.hpp - what a checkpoint says about its model before
// its weights are read.
//
// Readers of configurations (config.json, GGUF metadata) produce it, readers of weights consume it.
// The rules that both readers of configurations apply stand here; `place` is how a sentence names
// the field or the key.
//
// Tested by   tests/checkpoints/hf_config_test.cpp, tests/checkpoints/gguf_config_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/model/config.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// Whose names and layouts the tensors of a checkpoint have.
enum class Naming { llama, gpt2 };

// A model::Config, and what a loader of its weights must know besides.
struct CheckpointConfig {
  model::Config model;
  Naming naming = Naming::llama;
  bool tied = false;       // the output matrix is the embedding
  bool has_output = true;  // it may lack one if it embeds or classifies texts
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

// The value, an integer in [1, most].
inline Index checked_extent(Index value, std::string_view place, Index most = kMaxExtent) {
  expects<FormatError>(value > 0 && value <= most, place, " is ", value, ", not in [1, ", most,
                       "]");
  return value;
}

// The value, a number in (0, 1e18], as every constant of a rotary rule is.
inline double checked_positive(double value, std::string_view place) {
  expects<FormatError>(value > 0 && value <= 1e18, place, " is ", value, ", outside (0, 1e18]");
  return value;
}

// The epsilon of a norm.
inline float checked_epsilon(double value, std::string_view place) {
  expects<FormatError>(value >= 0 && value <= 1, place, " is ", value, ", outside [0, 1]");
  return static_cast<float>(value);
}

// Refuses heads that cannot share their keys and values evenly; `place` is that of the heads.
inline void check_groups(const model::Config& model, std::string_view place) {
  expects<FormatError>(model.heads % model.kv_heads == 0, place, " is ", model.heads,
                       ", not divisible by ", model.kv_heads, " key and value heads");
}

// The elements of a head's key or value if `absent` does not say so: hidden_size / heads. `place`
// is that of the hidden size.
inline Index default_head_dim(const model::Config& model, std::string_view place,
                              std::string_view absent) {
  expects<FormatError>(model.hidden_size % model.heads == 0, place, " is ", model.hidden_size,
                       ", not divisible by ", model.heads, " heads", absent.empty() ? "" : ", and ",
                       absent, absent.empty() ? "" : " is absent");
  return model.hidden_size / model.heads;
}

// What Gemma multiplies its embedding by.
inline float gemma_embedding_scale(const model::Config& model) {
  return std::sqrt(static_cast<float>(model.hidden_size));
}

// The special token `id`; nothing, and a warning, if no text can contain it.
inline std::optional<Token> special_token(CheckpointConfig& config, Index id,
                                          std::string_view place) {
  if (id >= 0 && id < config.model.vocabulary) return static_cast<Token>(id);
  config.warnings.push_back(sentence(place, " ", id, " is outside the vocabulary of ",
                                     config.model.vocabulary, " and is ignored"));
  return std::nullopt;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
