// decant/checkpoints/detail/gguf_config.hpp - the metadata of a GGUF file as a model::Config.
//
// Converters bake into the tensors what a family does to its weights (Gemma's 1 + w), and permute
// the rows of queries and keys of the architecture "llama" so that the elements of a rotary pair
// lie side by side. Which biases there are, and whether the output is the embedding, the tensors
// say.
//
//   architecture   rotary pairs  heads are normed   activation
//   llama          interleaved   no                 silu           also Mistral, SmolLM
//   qwen2          half-split    no                 silu
//   qwen3          half-split    yes                silu
//   gemma          half-split    no                 gelu           embedding * sqrt(hidden_size)
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md); llama.cpp's converter
// Tested by   tests/checkpoints/gguf_config_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/gguf_keys.hpp>
#include <decant/checkpoints/detail/gguf_rope.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/utf8.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

struct GgufFamily {
  std::string_view name;
  attention::Pairing pairing = attention::Pairing::half_split;
  bool query_key_norm = false;
  bool gemma = false;
  bool slides = false;  // may have a window, which is that of every layer
};

inline constexpr std::array kGgufFamilies = {
    GgufFamily{.name = "llama", .pairing = attention::Pairing::interleaved, .slides = true},
    GgufFamily{.name = "qwen2"},
    GgufFamily{.name = "qwen3", .query_key_norm = true},
    GgufFamily{.name = "gemma", .gemma = true},
};

inline const GgufFamily& gguf_family(const files::GgufMetadata& metadata) {
  constexpr std::string_view kKey = "general.architecture";
  const std::string_view name = metadata.text(kKey);
  const auto found = std::ranges::find(kGgufFamilies, name, &GgufFamily::name);
  expects<FormatError>(found != kGgufFamilies.end(), metadata.place(kKey), " is \"",
                       files::printable(name),
                       "\", which is not supported (llama, qwen2, qwen3 and gemma are)");
  return *found;
}

// Keys that change what a model computes in ways that this library does not.
inline void refuse_unsupported(const GgufKeys& keys) {
  for (std::string_view name :
       {"expert_count", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale",
        "residual_scale", "embedding_scale", "attention.scale", "attention.max_alibi_bias",
        "attention.clamp_kqv"}) {
    expects<FormatError>(keys.metadata().number_or(keys.key(name), 0.0) == 0.0, keys.place(name),
                         " is set, which is not supported");
  }
  expects<FormatError>(keys.metadata().flag_or(keys.key("attention.causal"), true),
                       keys.place("attention.causal"), " is false, which is not supported");
  expects<FormatError>(keys.metadata().integer_or("split.count", 1) <= 1,
                       keys.metadata().place("split.count"),
                       " is more than 1: a model in several GGUF files is not supported");
}

inline Index gguf_vocabulary(const GgufKeys& keys) {
  if (keys.has("vocab_size")) return keys.extent("vocab_size");
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  const files::GgufValue& tokens = keys.metadata().at(kKey);
  expects<FormatError>(tokens.array && tokens.count > 0 && tokens.count <= kMaxExtent,
                       keys.metadata().place(kKey), " is no list of 1 to ", kMaxExtent,
                       " tokens, and vocab_size is absent");
  return tokens.count;
}

inline Index gguf_head_dim(const GgufKeys& keys, std::string_view name,
                           const model::Config& model) {
  return keys.has(name) ? keys.extent(name)
                        : default_head_dim(model, keys.place("embedding_length"), name);
}

inline model::Config gguf_sizes(const GgufKeys& keys) {
  model::Config model;
  model.vocabulary = gguf_vocabulary(keys);
  model.layers = keys.extent("block_count", kMaxLayers);
  model.hidden_size = keys.extent("embedding_length");
  model.intermediate_size = keys.extent("feed_forward_length");
  model.heads = keys.extent("attention.head_count");
  model.kv_heads = keys.extent_or("attention.head_count_kv", model.heads);
  check_groups(model, keys.place("attention.head_count"));
  model.key_dim = gguf_head_dim(keys, "attention.key_length", model);
  model.value_dim = gguf_head_dim(keys, "attention.value_length", model);
  model.max_positions = keys.extent("context_length");
  return model;
}

inline std::vector<Position> gguf_windows(const GgufKeys& keys, const GgufFamily& family,
                                          Index layers) {
  constexpr std::string_view kName = "attention.sliding_window";
  const Index window = keys.metadata().integer_or(keys.key(kName), 0);
  if (window == 0) return {};
  expects<FormatError>(family.slides, keys.place(kName), " is set, which is not supported for ",
                       family.name);
  return std::vector<Position>(static_cast<std::size_t>(layers), keys.extent(kName));
}

inline void read_special_tokens(const files::GgufMetadata& metadata, CheckpointConfig& config) {
  const auto id_of = [&](std::string_view key) -> std::optional<Token> {
    if (!metadata.has(key)) return std::nullopt;
    return special_token(config, metadata.integer(key), metadata.place(key));
  };
  config.begin_token = id_of("tokenizer.ggml.bos_token_id");
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::optional<Token> id = id_of(key);
    const bool listed = id && std::ranges::find(config.end_tokens, *id) != config.end_tokens.end();
    if (id && !listed) config.end_tokens.push_back(*id);
  }
}

// The configuration of the model in `file`, whose tensors are called as kGgufLlamaNames says.
//
// Errors   FormatError naming file, and key or tensor
inline CheckpointConfig read_gguf_config(const files::Gguf& file) {
  const GgufFamily& family = gguf_family(file.metadata());
  const GgufKeys keys(file.metadata(), std::string(family.name));
  refuse_unsupported(keys);
  CheckpointConfig config;
  model::Config& model = config.model;
  model = gguf_sizes(keys);
  constexpr std::string_view kEpsilon = "attention.layer_norm_rms_epsilon";
  model.norm_epsilon =
      checked_epsilon(keys.metadata().number(keys.key(kEpsilon)), keys.place(kEpsilon));
  model.rope = read_gguf_rope(file, keys, family.pairing, model.key_dim);
  model.windows = gguf_windows(keys, family, model.layers);
  if (family.gemma) {
    model.activation = model::Activation::gelu_tanh;
    model.embedding_scale = gemma_embedding_scale(model);
  }
  const auto has = [&](std::string_view name) { return file.tensors().contains(name); };
  config.tied = !has("output.weight");
  config.qkv_bias = has("blk.0.attn_q.bias");
  config.attention_output_bias = has("blk.0.attn_output.bias");
  config.feed_forward_bias = has("blk.0.ffn_gate.bias");
  config.query_key_norm = family.query_key_norm;
  read_special_tokens(file.metadata(), config);
  return config;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
