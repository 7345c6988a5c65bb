// decant/checkpoints/load_adapter.hpp - an adapter from a folder that PEFT wrote.
//
// Everything is checked before an adapter exists. A setting that is not known to change nothing,
// and a tensor that nobody asked for, are refused by name: ignored, they would make an adapter that
// computes something else.
//
// Source      Hugging Face PEFT, LoraConfig (fields and defaults) and its saved tensors
// Tested by   tests/checkpoints/adapter_test.cpp, tests/checkpoints/malformed_adapter_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/config.hpp>

#include <filesystem>
#include <memory>

namespace decant::inline DECANT_ABI::checkpoints {

// Reads adapter_config.json and adapter_model.safetensors, for the model of that configuration.
// Matrices stay in the format of the file: f32, bf16 or f16.
//
// Errors   FormatError naming file, and field or tensor; std::bad_alloc
// Cost     one pass over the tensors
std::shared_ptr<const model::Adapter> load_adapter(const std::filesystem::path& folder,
                                                   const model::Config& config);

}  // namespace decant::inline DECANT_ABI::checkpoints

#ifndef DECANT_COMPILED_IO
#include <decant/checkpoints/detail/load_adapter.hpp>
#endif
