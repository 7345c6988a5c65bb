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
#include <decant/core/config.hpp>
#include <decant/model/config.hpp>

#include <filesystem>

namespace decant::inline DECANT_ABI::files {
class Gguf;
}

namespace decant::inline DECANT_ABI::checkpoints {

// The model in a GGUF file that is open already.
//
// Errors   FormatError naming file, and key or tensor; std::bad_alloc
Checkpoint load_checkpoint(const files::Gguf& file, const LoadOptions& options = {});

// Reads a folder with config.json, generation_config.json if there is one, and model.safetensors,
// alone or in shards with an index; or a GGUF file.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the files; memory for one copy of the weights
Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {});

// The shape of the model at `path`, without its weights.
//
// Errors   FormatError naming file and field
model::Config read_config(const std::filesystem::path& path);

}  // namespace decant::inline DECANT_ABI::checkpoints

#ifndef DECANT_COMPILED_IO
#include <decant/checkpoints/detail/load_checkpoint.hpp>
#endif
