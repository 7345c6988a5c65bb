// decant/io/checkpoint.hpp - a Hugging Face checkpoint folder as a configuration and weights.
//
// Everything is checked before a model exists: the configuration against itself, the files
// against their headers, the tensors against the configuration. Weights are packed while they are
// read, in the format that the file stores them in, and the files are closed again.
//
// Depends on  io/hf_config.hpp, io/llama_weights.hpp, io/gpt2_weights.hpp, io/tensor_files.hpp
// Tested by   tests/io/checkpoint_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/io/gpt2_weights.hpp>
#include <decant/io/hf_config.hpp>
#include <decant/io/llama_weights.hpp>
#include <decant/io/tensor_files.hpp>
#include <decant/io/weight_reader.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace decant::inline v0::io {

// What `model::Decoder` takes, and what a loop around it wants to know.
struct Checkpoint {
  model::Config config;
  model::Weights weights;
  std::vector<Token> end_tokens;     // any of them ends a text; may be none
  std::optional<Token> begin_token;  // what the model expects a text to begin with
  std::vector<std::string> remarks;  // sentences for the user: odd, but not wrong
};

// Reads config.json, generation_config.json where there is one, and model.safetensors, alone or in
// shards with an index.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the files; memory for one copy of the weights
inline Checkpoint load_checkpoint(const std::filesystem::path& folder) {
  HfConfig config = read_hf_config(folder);
  const TensorFiles files = TensorFiles::open(folder);
  WeightReader reader(files);
  model::Weights weights = config.naming == Naming::gpt2
                               ? read_gpt2_weights(reader, config, config.remarks)
                               : read_llama_weights(reader, config, config.remarks);
  return {.config = std::move(config.model),
          .weights = std::move(weights),
          .end_tokens = std::move(config.end_tokens),
          .begin_token = config.begin_token,
          .remarks = std::move(config.remarks)};
}

}  // namespace decant::inline v0::io
