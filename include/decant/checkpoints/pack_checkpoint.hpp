// decant/checkpoints/pack_checkpoint.hpp - a checkpoint written as its products read it, to be
// mapped from then on.
//
// Loading a checkpoint converts its weights into panels. A packed file holds the panels, so opening
// it converts and copies nothing: load_checkpoint() of that path takes them where the system maps
// them, and all programs that map one file share its pages. The bits are those of the checkpoint
// that was packed. Panels are the same on all machines, and so is the file.
//
//   safetensors with a checksum (files/sealed_tensors.hpp); its metadata name the version of the
//   format, and of every matrix format, rows and columns
//   matrices       panels, as bytes, in multiples of 64 of them
//   config         JSON, as bytes
//   tokenizer      tokenizer.json and tokenizer_config.json, or a GGUF file without tensors
//   others         norms, biases and learned positions, in f32
//
// Tested by   tests/checkpoints/packed_checkpoint_test.cpp, tests/fuzz/packed_target.hpp
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/core/config.hpp>
#include <decant/core/resources.hpp>

#include <filesystem>

namespace decant::inline DECANT_ABI::checkpoints {

// Writes the folder or the GGUF file `from`, and its tokenizer if there is one, to the file `to`,
// in the format of weights that the options name. Activations are chosen when it is loaded.
//
// Errors   FormatError as load_checkpoint(); std::system_error naming `to`; std::bad_alloc; a file
//          that was there before is untouched
// Cost     that of load_checkpoint(), and a file as large as the weights
void pack_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                     const LoadOptions& options = {}, const Resources& resources = {});

}  // namespace decant::inline DECANT_ABI::checkpoints

#ifndef DECANT_COMPILED_IO
#include <decant/checkpoints/detail/pack_checkpoint.hpp>
#endif
