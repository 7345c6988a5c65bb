// decant/checkpoints/detail/load_checkpoint.hpp - definitions of checkpoints/load_checkpoint.hpp.
//
// Tested by   tests/checkpoints/{,gguf_,memory_,packed_}checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/gguf_config.hpp>
#include <decant/checkpoints/detail/gpt2_weights.hpp>
#include <decant/checkpoints/detail/hf_config.hpp>
#include <decant/checkpoints/detail/llama_weights.hpp>
#include <decant/checkpoints/detail/packed_checkpoint.hpp>
#include <decant/checkpoints/detail/weight_reader.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/core/error.hpp>
#include <decant/core/resources.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/tensor_files.hpp>
#include <decant/files/utf8.hpp>
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

inline Checkpoint load_hf(CheckpointConfig config, const files::TensorTable& tensors,
                          const LoadOptions& options, const Resources& resources) {
  WeightReader reader(tensors, options, resources);
  model::ScoreHead score = read_score_head(reader, config.model);
  model::Weights weights = config.naming == Naming::gpt2
                               ? read_gpt2_weights(reader, config, config.warnings)
                               : read_llama_weights(reader, config, kHfLlamaNames, config.warnings);
  Checkpoint checkpoint = checkpoint_of(std::move(config), std::move(weights));
  checkpoint.score = std::move(score);
  return checkpoint;
}

// Refuses a tensor whose bytes are not what its shape and format take.
inline files::TensorTable table_of(const CheckpointSource& source) {
  files::TensorTable table(source.name);
  for (const auto& [name, tensor] : source.tensors) {
    expects<FormatError>(tensor.dtype != nullptr &&
                             files::bytes_of(tensor.shape, *tensor.dtype) == tensor.data.size(),
                         source.name, ": tensor ", files::printable(name), " has ",
                         tensor.data.size(), " bytes, which is not what ",
                         tensor.dtype != nullptr ? tensor.dtype->name : "no format", " ",
                         files::shape_text(tensor.shape), " takes");
    table.add(name, {&tensor, source.name});
  }
  return table;
}

}  // namespace detail

DECANT_IO_INLINE Checkpoint load_checkpoint(const CheckpointSource& source,
                                            const LoadOptions& options,
                                            const Resources& resources) {
  detail::CheckpointConfig config =
      detail::parse_hf_config(source.config, source.name + ": config.json");
  if (!source.generation_config.empty()) {
    detail::apply_generation_config(source.generation_config,
                                    source.name + ": generation_config.json", config);
  }
  return detail::load_hf(std::move(config), detail::table_of(source), options, resources);
}

DECANT_IO_INLINE Checkpoint load_checkpoint(const files::Gguf& file, const LoadOptions& options,
                                            const Resources& resources) {
  detail::CheckpointConfig config = detail::read_gguf_config(file);
  const files::TensorTable table = file.table();
  detail::WeightReader reader(table, options, resources);
  model::Weights weights =
      detail::read_llama_weights(reader, config, detail::kGgufLlamaNames, config.warnings);
  return detail::checkpoint_of(std::move(config), std::move(weights));
}

DECANT_IO_INLINE Checkpoint load_checkpoint(const std::filesystem::path& path,
                                            const LoadOptions& options,
                                            const Resources& resources) {
  if (files::is_safetensors(path)) return detail::load_packed(path, options);
  if (files::is_gguf(path)) return load_checkpoint(files::Gguf::open(path), options, resources);
  detail::CheckpointConfig config = detail::read_hf_config(path);
  const files::TensorFiles files = files::TensorFiles::open(path);
  return detail::load_hf(std::move(config), files.table(), options, resources);
}

DECANT_IO_INLINE model::Config read_config(const std::filesystem::path& path) {
  if (files::is_safetensors(path)) return detail::read_packed_config(path);
  return files::is_gguf(path) ? detail::read_gguf_config(files::Gguf::open(path)).model
                              : detail::read_hf_config(path).model;
}

}  // namespace decant::inline DECANT_ABI::checkpoints
