// decant/io/llama_weights.hpp - the tensors of the Llama family under their Hugging Face names.
//
// Llama, Mistral, Qwen and Gemma share names; they differ in which biases and head norms exist.
// Query, key and value rows are stacked into one matrix, gate and up rows into another.
//
// Depends on  io/hf_config.hpp, io/weight_reader.hpp, model/weights.hpp
// Source      Hugging Face transformers, modeling_llama and its relatives (tensor names)
// Tested by   tests/io/checkpoint_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/io/hf_config.hpp>
#include <decant/io/weight_reader.hpp>
#include <decant/model/weights.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace decant::inline v0::io {

namespace detail {

inline void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

inline void read_llama_attention(WeightReader& reader, const std::string& at,
                                 const HfConfig& config, model::LayerWeights& layer) {
  const model::Config& model = config.model;
  const Index queries = model.heads * model.key_dim;
  const Index keys = model.kv_heads * model.key_dim;
  const Index values = model.kv_heads * model.value_dim;
  layer.qkv.matrix = stacked({reader.matrix(at + "q_proj.weight", queries, model.width),
                              reader.matrix(at + "k_proj.weight", keys, model.width),
                              reader.matrix(at + "v_proj.weight", values, model.width)});
  if (config.qkv_bias) {
    layer.qkv.bias = reader.numbers(at + "q_proj.bias", {queries});
    append(layer.qkv.bias, reader.numbers(at + "k_proj.bias", {keys}));
    append(layer.qkv.bias, reader.numbers(at + "v_proj.bias", {values}));
  }
  if (config.query_key_norm) {
    layer.query_norm = rms_norm(reader, at + "q_norm.weight", model.key_dim, config.norm_plus_one);
    layer.key_norm = rms_norm(reader, at + "k_norm.weight", model.key_dim, config.norm_plus_one);
  }
  layer.attention_output.matrix = kernels::Matrix(
      reader.matrix(at + "o_proj.weight", model.width, model.heads * model.value_dim));
  if (config.attention_output_bias) {
    layer.attention_output.bias = reader.numbers(at + "o_proj.bias", {model.width});
  }
}

inline void read_llama_feed_forward(WeightReader& reader, const std::string& at,
                                    const HfConfig& config, model::LayerWeights& layer) {
  const Index width = config.model.width;
  const Index inner = config.model.feed_forward;
  layer.up.matrix = stacked({reader.matrix(at + "gate_proj.weight", inner, width),
                             reader.matrix(at + "up_proj.weight", inner, width)});
  layer.down.matrix = kernels::Matrix(reader.matrix(at + "down_proj.weight", width, inner));
  if (config.feed_forward_bias) {
    layer.up.bias = reader.numbers(at + "gate_proj.bias", {inner});
    append(layer.up.bias, reader.numbers(at + "up_proj.bias", {inner}));
    layer.down.bias = reader.numbers(at + "down_proj.bias", {width});
  }
}

}  // namespace detail

// Everything but biases and norms that `config` rules out must be there, and nothing else.
//
// Errors   FormatError naming file and tensor
// Cost     one pass over the tensors, which are copied into packed panels
inline model::Weights read_llama_weights(WeightReader& reader, const HfConfig& config,
                                         std::vector<std::string>& remarks) {
  const Index width = config.model.width;
  const std::string prefix = reader.prefix("model.", "layers.");
  model::Weights weights;
  detail::read_vocabulary(reader, prefix + "embed_tokens.weight", config, weights, remarks);
  for (Index at = 0; at < config.model.layers; ++at) {
    const std::string name = sentence(prefix, "layers.", at, ".");
    model::LayerWeights& layer = weights.layers.emplace_back();
    layer.attention_norm =
        detail::rms_norm(reader, name + "input_layernorm.weight", width, config.norm_plus_one);
    detail::read_llama_attention(reader, name + "self_attn.", config, layer);
    layer.feed_forward_norm = detail::rms_norm(reader, name + "post_attention_layernorm.weight",
                                               width, config.norm_plus_one);
    detail::read_llama_feed_forward(reader, name + "mlp.", config, layer);
  }
  weights.output_norm =
      detail::rms_norm(reader, prefix + "norm.weight", width, config.norm_plus_one);
  // Frequencies that older files store follow from the configuration.
  reader.finish([](std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); });
  return weights;
}

}  // namespace decant::inline v0::io
