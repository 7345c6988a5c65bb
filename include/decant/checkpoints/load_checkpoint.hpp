// decant/checkpoints/load_checkpoint.hpp - a checkpoint from a Hugging Face folder or a GGUF file.
//
// Everything is checked before a model exists: the configuration against itself, the files
// against their headers, the tensors against the configuration. Weights are packed while they are
// read, in the format that the file stores them in unless the options name another, and the files
// are closed again.
//
// Tested by   tests/checkpoints/checkpoint_test.cpp, tests/checkpoints/gguf_checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/gguf_config.hpp>
#include <decant/checkpoints/detail/gpt2_weights.hpp>
#include <decant/checkpoints/detail/hf_config.hpp>
#include <decant/checkpoints/detail/llama_weights.hpp>
#include <decant/checkpoints/detail/weight_reader.hpp>
#include <decant/checkpoints/load_options.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/tensor_files.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <filesystem>
#include <utility>

namespace decant::inline v0::checkpoints {

namespace detail {

inline Checkpoint checkpoint_of(detail::CheckpointConfig config, model::Weights weights) {
  return {.config = std::move(config.model),
          .weights = std::move(weights),
          .end_tokens = std::move(config.end_tokens),
          .begin_token = config.begin_token,
          .warnings = std::move(config.warnings)};
}

inline Checkpoint load_folder(const std::filesystem::path& folder, const LoadOptions& options) {
  detail::CheckpointConfig config = detail::read_hf_config(folder);
  const files::TensorFiles files = files::TensorFiles::open(folder);
  detail::WeightReader reader(files.table(), options);
  model::Weights weights =
      config.naming == detail::Naming::gpt2
          ? detail::read_gpt2_weights(reader, config, config.warnings)
          : detail::read_llama_weights(reader, config, detail::kHfLlamaNames, config.warnings);
  return checkpoint_of(std::move(config), std::move(weights));
}

}  // namespace detail

// The model in a GGUF file that is open already.
//
// Errors   FormatError naming file, and key or tensor; std::bad_alloc
inline Checkpoint load_checkpoint(const files::Gguf& file, const LoadOptions& options = {}) {
  detail::CheckpointConfig config = detail::read_gguf_config(file);
  const files::TensorTable table = file.table();
  detail::WeightReader reader(table, options);
  model::Weights weights =
      detail::read_llama_weights(reader, config, detail::kGgufLlamaNames, config.warnings);
  return detail::checkpoint_of(std::move(config), std::move(weights));
}

// Reads a folder with config.json, generation_config.json where there is one, and
// model.safetensors, alone or in shards with an index; or a GGUF file.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the files; memory for one copy of the weights
inline Checkpoint load_checkpoint(const std::filesystem::path& path,
                                  const LoadOptions& options = {}) {
  return files::is_gguf(path) ? load_checkpoint(files::Gguf::open(path), options)
                              : detail::load_folder(path, options);
}

// The shape of the model at `path`, without its weights.
//
// Errors   FormatError naming file and field
inline model::Config read_config(const std::filesystem::path& path) {
  return files::is_gguf(path) ? detail::read_gguf_config(files::Gguf::open(path)).model
                              : detail::read_hf_config(path).model;
}

}  // namespace decant::inline v0::checkpoints
