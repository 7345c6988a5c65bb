// decant/checkpoints/detail/load_checkpoint.hpp - definitions of checkpoints/load_checkpoint.hpp.
//
// Tested by   tests/checkpoints/checkpoint_test.cpp, tests/checkpoints/gguf_checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/gguf_config.hpp>
#include <decant/checkpoints/detail/gpt2_weights.hpp>
#include <decant/checkpoints/detail/hf_config.hpp>
#include <decant/checkpoints/detail/llama_weights.hpp>
#include <decant/checkpoints/detail/weight_reader.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/tensor_files.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <filesystem>
#include <utility>

namespace decant::inline DECANT_ABI::checkpoints {

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
  const files::TensorFiles files = files::TensorFiles::open(folder);
  WeightReader reader(files.table(), options);
  model::ScoreHead score = read_score_head(reader, config.model);
  model::Weights weights = config.naming == Naming::gpt2
                               ? read_gpt2_weights(reader, config, config.warnings)
                               : read_llama_weights(reader, config, kHfLlamaNames, config.warnings);
  Checkpoint checkpoint = checkpoint_of(std::move(config), std::move(weights));
  checkpoint.score = std::move(score);
  return checkpoint;
}

}  // namespace detail

DECANT_IO_INLINE Checkpoint load_checkpoint(const files::Gguf& file, const LoadOptions& options) {
  detail::CheckpointConfig config = detail::read_gguf_config(file);
  const files::TensorTable table = file.table();
  detail::WeightReader reader(table, options);
  model::Weights weights =
      detail::read_llama_weights(reader, config, detail::kGgufLlamaNames, config.warnings);
  return detail::checkpoint_of(std::move(config), std::move(weights));
}

DECANT_IO_INLINE Checkpoint load_checkpoint(const std::filesystem::path& path,
                                            const LoadOptions& options) {
  return files::is_gguf(path) ? load_checkpoint(files::Gguf::open(path), options)
                              : detail::load_folder(path, options);
}

DECANT_IO_INLINE model::Config read_config(const std::filesystem::path& path) {
  return files::is_gguf(path) ? detail::read_gguf_config(files::Gguf::open(path)).model
                              : detail::read_hf_config(path).model;
}

}  // namespace decant::inline DECANT_ABI::checkpoints
