// decant/io/load_checkpoint.hpp - a checkpoint from a Hugging Face folder or a GGUF file.
//
// Everything is checked before a model exists: the configuration against itself, the files
// against their headers, the tensors against the configuration. Weights are packed while they are
// read, in the format that the file stores them in unless the options name another, and the files
// are closed again.
//
// Depends on  io/{checkpoint,gguf_config,gpt2_weights,hf_config,llama_weights,load_options}.hpp,
//             io/tensor_files.hpp
// Tested by   tests/io/checkpoint_test.cpp, tests/io/gguf_checkpoint_test.cpp
#pragma once

#include <decant/io/checkpoint.hpp>
#include <decant/io/checkpoint_config.hpp>
#include <decant/io/gguf.hpp>
#include <decant/io/gguf_config.hpp>
#include <decant/io/gpt2_weights.hpp>
#include <decant/io/hf_config.hpp>
#include <decant/io/llama_weights.hpp>
#include <decant/io/load_options.hpp>
#include <decant/io/tensor.hpp>
#include <decant/io/tensor_files.hpp>
#include <decant/io/weight_reader.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <filesystem>
#include <utility>

namespace decant::inline v0::io {

namespace detail {

inline Checkpoint checkpoint_of(CheckpointConfig config, model::Weights weights) {
  return {.config = std::move(config.model),
          .weights = std::move(weights),
          .end_tokens = std::move(config.end_tokens),
          .begin_token = config.begin_token,
          .warnings = std::move(config.warnings)};
}

inline Checkpoint load_folder(const std::filesystem::path& folder, const LoadOptions& options) {
  CheckpointConfig config = read_hf_config(folder);
  const TensorFiles files = TensorFiles::open(folder);
  WeightReader reader(files.table(), options);
  model::Weights weights = config.naming == Naming::gpt2
                               ? read_gpt2_weights(reader, config, config.warnings)
                               : read_llama_weights(reader, config, kHfLlamaNames, config.warnings);
  return checkpoint_of(std::move(config), std::move(weights));
}

}  // namespace detail

// The model in a GGUF file that is open already.
//
// Errors   FormatError naming file, and key or tensor; std::bad_alloc
inline Checkpoint load_checkpoint(const Gguf& file, const LoadOptions& options = {}) {
  CheckpointConfig config = read_gguf_config(file);
  const TensorTable table = file.table();
  WeightReader reader(table, options);
  model::Weights weights = read_llama_weights(reader, config, kGgufLlamaNames, config.warnings);
  return detail::checkpoint_of(std::move(config), std::move(weights));
}

// Reads a folder with config.json, generation_config.json where there is one, and
// model.safetensors, alone or in shards with an index; or a GGUF file.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the files; memory for one copy of the weights
inline Checkpoint load_checkpoint(const std::filesystem::path& path,
                                  const LoadOptions& options = {}) {
  return is_gguf(path) ? load_checkpoint(Gguf::open(path), options)
                       : detail::load_folder(path, options);
}

// The shape of the model at `path`, without its weights.
//
// Errors   FormatError naming file and field
inline model::Config read_config(const std::filesystem::path& path) {
  return is_gguf(path) ? read_gguf_config(Gguf::open(path)).model : read_hf_config(path).model;
}

}  // namespace decant::inline v0::io
