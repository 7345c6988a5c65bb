// decant/checkpoints/load_checkpoint.hpp - a checkpoint from a Hugging Face folder, a GGUF file, a
// packed file or memory.
//
// Everything is checked before a model exists: the configuration against itself, the files
// against their headers, the tensors against the configuration. Weights are packed while they are
// read, in the format that the file stores them in unless the options name another, and the files
// are closed again. A packed file (checkpoints/pack_checkpoint.hpp) stays mapped instead.
//
// Tested by   tests/checkpoints/{,gguf_,memory_,packed_}checkpoint_test.cpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/core/config.hpp>
#include <decant/core/resources.hpp>
#include <decant/files/tensor.hpp>
#include <decant/model/config.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI::files {
class Gguf;
}

namespace decant::inline DECANT_ABI::checkpoints {

// What the files of a Hugging Face folder hold, in memory: downloaded, decrypted or made. All of it
// is borrowed, until load_checkpoint() returns. Tensors come with their names, since one that the
// model does not use is refused.
struct CheckpointSource {
  std::string name = "checkpoint";          // in sentences
  std::string_view config;                  // the text of config.json
  std::string_view generation_config = {};  // that of generation_config.json, if there is one
  std::map<std::string, files::Tensor, std::less<>> tensors;  // as files::Safetensors has them
};

// Weights are packed on the threads and in the memory of `resources`: the same bits with any.
//
// Errors   FormatError naming source, and field or tensor; std::bad_alloc
// Cost     one pass over the tensors; memory for one copy of the weights
Checkpoint load_checkpoint(const CheckpointSource& source, const LoadOptions& options = {},
                           const Resources& resources = {});

// The model in a GGUF file that is open already.
//
// Errors   FormatError naming file, and key or tensor; std::bad_alloc
Checkpoint load_checkpoint(const files::Gguf& file, const LoadOptions& options = {},
                           const Resources& resources = {});

// Reads a folder with config.json, generation_config.json if there is one, and model.safetensors,
// alone or in shards with an index; or a GGUF file; or a packed file.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the files; memory for one copy of the weights, none for a packed file
Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {},
                           const Resources& resources = {});

// The shape of the model at `path`, without its weights.
//
// Errors   FormatError naming file and field
model::Config read_config(const std::filesystem::path& path);

}  // namespace decant::inline DECANT_ABI::checkpoints

#ifndef DECANT_COMPILED_IO
#include <decant/checkpoints/detail/load_checkpoint.hpp>
#endif
