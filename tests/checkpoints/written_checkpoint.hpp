// tests/checkpoints/written_checkpoint.hpp - a small checkpoint of any family, to be bent by tests.
//
#pragma once

#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/files/json.hpp>

#include "files/written_files.hpp"

#include <string>
#include <utility>
#include <vector>

namespace decant::trial {

// A folder with a configuration and the tensors that belong to it; both may be changed before
// load() writes and reads them.
class WrittenCheckpoint {
 public:
  // Two layers of hidden size 8, two query heads and one key and value head of 6, feed-forward 10.
  static WrittenCheckpoint llama(const std::string& type = "llama",
                                 const std::string& prefix = "model.") {
    WrittenCheckpoint result;
    result.config = {{"model_type", type},       {"vocab_size", 11},
                     {"hidden_size", 8},         {"num_hidden_layers", 2},
                     {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                     {"intermediate_size", 10},  {"head_dim", 6}};
    TensorSet& set = result.tensors;
    set.add(prefix + "embed_tokens.weight", {11, 8});
    set.add(prefix + "norm.weight", {8});
    set.add("lm_head.weight", {11, 8});
    for (const char* index : {"0.", "1."}) {
      const std::string layer = prefix + "layers." + index;
      set.add(layer + "input_layernorm.weight", {8});
      set.add(layer + "post_attention_layernorm.weight", {8});
      set.add(layer + "self_attn.q_proj.weight", {12, 8});
      set.add(layer + "self_attn.k_proj.weight", {6, 8});
      set.add(layer + "self_attn.v_proj.weight", {6, 8});
      set.add(layer + "self_attn.o_proj.weight", {8, 12});
      set.add(layer + "mlp.gate_proj.weight", {10, 8});
      set.add(layer + "mlp.up_proj.weight", {10, 8});
      set.add(layer + "mlp.down_proj.weight", {8, 10});
    }
    return result;
  }

  // Two layers of hidden size 8 with two heads of 4, feed-forward 10 and 5 positions.
  static WrittenCheckpoint gpt2(const std::string& prefix = "transformer.") {
    WrittenCheckpoint result;
    result.config = {{"model_type", "gpt2"}, {"vocab_size", 11}, {"n_embd", 8},  {"n_layer", 2},
                     {"n_head", 2},          {"n_positions", 5}, {"n_inner", 10}};
    TensorSet& set = result.tensors;
    const auto with_bias = [&](const std::string& name, std::vector<Index> shape) {
      set.add(name + ".bias", {shape.back()});
      set.add(name + ".weight", std::move(shape));
    };
    set.add(prefix + "wte.weight", {11, 8});
    set.add(prefix + "wpe.weight", {5, 8});
    with_bias(prefix + "ln_f", {8});
    for (const char* index : {"0.", "1."}) {
      const std::string layer = prefix + "h." + index;
      with_bias(layer + "ln_1", {8});
      with_bias(layer + "ln_2", {8});
      with_bias(layer + "attn.c_attn", {8, 24});
      with_bias(layer + "attn.c_proj", {8, 8});
      with_bias(layer + "mlp.c_fc", {8, 10});
      with_bias(layer + "mlp.c_proj", {10, 8});
    }
    return result;
  }

  checkpoints::Checkpoint load(const checkpoints::LoadOptions& options = {}) const {
    const Folder folder;
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", tensors.file());
    return checkpoints::load_checkpoint(folder.path(), options);
  }

  files::Json config;
  TensorSet tensors;
};

// All rows of a packed matrix.
inline std::vector<std::vector<float>> rows_of(const kernels::Matrix& matrix) {
  std::vector<std::vector<float>> rows;
  for (Index at = 0; at < matrix.rows(); ++at) {
    rows.emplace_back(static_cast<std::size_t>(matrix.columns()));
    matrix.row(at, rows.back());
  }
  return rows;
}

}  // namespace decant::trial
