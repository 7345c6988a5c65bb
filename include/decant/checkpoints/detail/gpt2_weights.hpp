// decant/checkpoints/detail/gpt2_weights.hpp - the tensors of GPT-2 under their Hugging Face names.
//
// GPT-2 stores its linear layers as [inputs, outputs], the other way round than everybody else;
// they are read with strides swapped. `c_attn` holds query, key and value outputs one after the
// other, which is the order of the stacked matrix.
//
// Source      Hugging Face transformers, modeling_gpt2 (tensor names, Conv1D)
// Tested by   tests/checkpoints/checkpoint_test.cpp
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

inline model::Linear read_conv1d(WeightReader& reader, const std::string& name, Index outputs,
                                 Index inputs) {
  return {.matrix = reader.packed({reader.transposed(name + ".weight", outputs, inputs)}),
          .bias = reader.values(name + ".bias", {outputs})};
}

inline model::NormWeights read_layer_norm(WeightReader& reader, const std::string& name,
                                          Index size) {
  return {.weight = reader.values(name + ".weight", {size}),
          .bias = reader.values(name + ".bias", {size})};
}

// Everything must be there, and nothing else.
//
// Errors   FormatError naming file and tensor
// Cost     one pass over the tensors, which are copied into packed panels
inline model::Weights read_gpt2_weights(WeightReader& reader, const CheckpointConfig& config,
                                        std::vector<std::string>& warnings) {
  const Index hidden = config.model.hidden_size;
  const Index inner = config.model.intermediate_size;
  const std::string prefix = reader.prefix("transformer.", "h.");
  model::Weights weights;
  read_vocabulary(reader, prefix + "wte.weight", "lm_head.weight", config, weights, warnings);
  weights.positions = reader.values(prefix + "wpe.weight", {config.model.max_positions, hidden});
  for (Index at = 0; at < config.model.layers; ++at) {
    const std::string name = sentence(prefix, "h.", at, ".");
    model::LayerWeights& layer = weights.layers.emplace_back();
    layer.attention_norm = read_layer_norm(reader, name + "ln_1", hidden);
    layer.qkv = read_conv1d(reader, name + "attn.c_attn", 3 * hidden, hidden);
    layer.attention_output = read_conv1d(reader, name + "attn.c_proj", hidden, hidden);
    layer.feed_forward_norm = read_layer_norm(reader, name + "ln_2", hidden);
    layer.up = read_conv1d(reader, name + "mlp.c_fc", inner, hidden);
    layer.down = read_conv1d(reader, name + "mlp.c_proj", hidden, inner);
  }
  weights.output_norm = read_layer_norm(reader, prefix + "ln_f", hidden);
  // Causal masks that older files store are not weights.
  reader.finish([](std::string_view name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  });
  return weights;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
