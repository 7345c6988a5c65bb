// decant/checkpoints/detail/llama_weights.hpp - the tensors of the Llama family, under the names of
// a file format.
//
// Llama, Mistral, Qwen and Gemma share names; they differ in which biases and head norms exist.
// Query, key and value rows are stacked into one matrix, gate and up rows into another. A file
// format is a table of names.
//
// Source      Hugging Face transformers, modeling_llama and its relatives; the GGUF specification,
//             "Standardized tensor names"
// Tested by   tests/checkpoints/checkpoint_test.cpp, tests/checkpoints/gguf_checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/weight_reader.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/weights.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// What stands in front of ".weight" and ".bias". All but the output carry `root`, which a file may
// leave out as a whole; what belongs to layer n also carries `layers` and "n.".
struct LlamaNames {
  std::string_view root, layers;
  std::string_view embedding, output_norm, output;
  std::string_view attention_norm, query, key, value, query_norm, key_norm, attention_output;
  std::string_view feed_forward_norm, gate, up, down;
  std::string_view ignored;  // how a tensor ends that follows from the configuration
};

inline constexpr LlamaNames kHfLlamaNames = {.root = "model.",
                                             .layers = "layers.",
                                             .embedding = "embed_tokens",
                                             .output_norm = "norm",
                                             .output = "lm_head",
                                             .attention_norm = "input_layernorm",
                                             .query = "self_attn.q_proj",
                                             .key = "self_attn.k_proj",
                                             .value = "self_attn.v_proj",
                                             .query_norm = "self_attn.q_norm",
                                             .key_norm = "self_attn.k_norm",
                                             .attention_output = "self_attn.o_proj",
                                             .feed_forward_norm = "post_attention_layernorm",
                                             .gate = "mlp.gate_proj",
                                             .up = "mlp.up_proj",
                                             .down = "mlp.down_proj",
                                             .ignored = "rotary_emb.inv_freq"};

inline constexpr LlamaNames kGgufLlamaNames = {.root = "",
                                               .layers = "blk.",
                                               .embedding = "token_embd",
                                               .output_norm = "output_norm",
                                               .output = "output",
                                               .attention_norm = "attn_norm",
                                               .query = "attn_q",
                                               .key = "attn_k",
                                               .value = "attn_v",
                                               .query_norm = "attn_q_norm",
                                               .key_norm = "attn_k_norm",
                                               .attention_output = "attn_output",
                                               .feed_forward_norm = "ffn_norm",
                                               .gate = "ffn_gate",
                                               .up = "ffn_up",
                                               .down = "ffn_down",
                                               .ignored = "rope_freqs.weight"};

// The tensors of one layer, and then of the next.
class LlamaLayerReader {
 public:
  LlamaLayerReader(WeightReader& reader, const CheckpointConfig& config, const LlamaNames& names)
      : reader_(reader), config_(config), model_(config.model), names_(names) {}

  // `at` stands in front of the names of the layer.
  model::LayerWeights operator()(const std::string& at) const {
    model::LayerWeights layer;
    layer.attention_norm = norm(at, names_.attention_norm, model_.hidden_size);
    read_attention(at, layer);
    layer.feed_forward_norm = norm(at, names_.feed_forward_norm, model_.hidden_size);
    read_feed_forward(at, layer);
    return layer;
  }

  model::NormWeights norm(const std::string& at, std::string_view name, Index size) const {
    model::NormWeights norm{.weight = reader_.values(sentence(at, name, ".weight"), {size}),
                            .bias = {}};
    if (config_.norm_plus_one) {
      for (float& weight : norm.weight) weight += 1.0f;
    }
    return norm;
  }

 private:
  kernels::MatrixView matrix(const std::string& at, std::string_view name, Index outputs,
                             Index inputs) const {
    return reader_.matrix(sentence(at, name, ".weight"), outputs, inputs);
  }
  void append_bias(std::vector<float>& to, const std::string& at, std::string_view name,
                   Index outputs) const {
    const std::vector<float> bias = reader_.values(sentence(at, name, ".bias"), {outputs});
    to.insert(to.end(), bias.begin(), bias.end());
  }

  void read_attention(const std::string& at, model::LayerWeights& layer) const {
    const Index queries = model_.heads * model_.key_dim;
    const Index keys = model_.kv_heads * model_.key_dim;
    const Index values = model_.kv_heads * model_.value_dim;
    layer.qkv.matrix = reader_.packed({matrix(at, names_.query, queries, model_.hidden_size),
                                       matrix(at, names_.key, keys, model_.hidden_size),
                                       matrix(at, names_.value, values, model_.hidden_size)});
    if (config_.qkv_bias) {
      append_bias(layer.qkv.bias, at, names_.query, queries);
      append_bias(layer.qkv.bias, at, names_.key, keys);
      append_bias(layer.qkv.bias, at, names_.value, values);
    }
    if (config_.query_key_norm) {
      layer.query_norm = norm(at, names_.query_norm, model_.key_dim);
      layer.key_norm = norm(at, names_.key_norm, model_.key_dim);
    }
    layer.attention_output.matrix = reader_.packed(
        {matrix(at, names_.attention_output, model_.hidden_size, model_.heads * model_.value_dim)});
    if (config_.attention_output_bias) {
      append_bias(layer.attention_output.bias, at, names_.attention_output, model_.hidden_size);
    }
  }

  void read_feed_forward(const std::string& at, model::LayerWeights& layer) const {
    const Index inner = model_.intermediate_size;
    layer.up.matrix = reader_.packed({matrix(at, names_.gate, inner, model_.hidden_size),
                                      matrix(at, names_.up, inner, model_.hidden_size)});
    layer.down.matrix = reader_.packed({matrix(at, names_.down, model_.hidden_size, inner)});
    if (config_.feed_forward_bias) {
      append_bias(layer.up.bias, at, names_.gate, inner);
      append_bias(layer.up.bias, at, names_.up, inner);
      append_bias(layer.down.bias, at, names_.down, model_.hidden_size);
    }
  }

  WeightReader& reader_;
  const CheckpointConfig& config_;
  const model::Config& model_;
  const LlamaNames& names_;
};

// Everything but biases and norms that `config` rules out must be there, and nothing else.
//
// Errors   FormatError naming file and tensor
// Cost     one pass over the tensors, which are copied into packed panels
inline model::Weights read_llama_weights(WeightReader& reader, const CheckpointConfig& config,
                                         const LlamaNames& names,
                                         std::vector<std::string>& warnings) {
  const std::string root = reader.prefix(names.root, names.layers);
  const LlamaLayerReader read_layer(reader, config, names);
  model::Weights weights;
  read_vocabulary(reader, sentence(root, names.embedding, ".weight"),
                  sentence(names.output, ".weight"), config, weights, warnings);
  for (Index at = 0; at < config.model.layers; ++at) {
    weights.layers.push_back(read_layer(sentence(root, names.layers, at, ".")));
  }
  weights.output_norm = read_layer.norm(root, names.output_norm, config.model.hidden_size);
  reader.finish([&](std::string_view name) { return name.ends_with(names.ignored); });
  return weights;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
