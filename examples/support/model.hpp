// examples/support/model.hpp - the folder of the embedded model, and how a folder or a GGUF
// file becomes a checkpoint.
//
// Code that reads checkpoints compiles slowly, so it is compiled once, in model.cpp.
//
// Tested by   tests/examples/CMakeLists.txt, which starts an example from another folder
#pragma once

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/core/types.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/config.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

// The embedded model: in a folder above the executable, so that a built tree may be moved, or else
// where it was when the example was compiled.
std::string default_model_folder();

CommandLine::Option add_model(CommandLine& command, std::string& path, const std::string& about);

// The format of weights; and with it, whether products quantise activations.
void add_weights(CommandLine& command, decant::checkpoints::LoadOptions& options);
void add_load_options(CommandLine& command, decant::checkpoints::LoadOptions& options);

// The checkpoint at `path`; its warnings go to standard error.
decant::checkpoints::Checkpoint load(const std::string& path,
                                     const decant::checkpoints::LoadOptions& options = {});

// The checkpoint of a draft model for a model with that tokenizer.
decant::checkpoints::Checkpoint load_draft_model(
    const std::string& path, const decant::text::Tokenizer& tokenizer,
    const decant::checkpoints::LoadOptions& options = {});

// The adapter in a folder that PEFT wrote.
std::shared_ptr<const decant::model::Adapter> load_adapter(const std::string& folder,
                                                           const decant::model::Config& config);

// Its tokenizer, and its shape alone.
decant::text::Tokenizer load_tokenizer(const std::string& path);
decant::model::Config read_config(const std::string& path);

// The tokens of a text given as `argument`, all of them in the vocabulary of the model at `path`.
// Warns of a text that begins with the token that the tokenizer puts in front of it.
std::vector<decant::Token> encode(const decant::text::Tokenizer& tokenizer, std::string_view text,
                                  const std::string& argument, const decant::model::Config& config,
                                  const std::string& path,
                                  const decant::text::EncodeOptions& options = {});

// Refuses more tokens at once than the model was made for.
void check_length(const std::string& argument, decant::Index tokens,
                  const decant::model::Config& config);

}  // namespace examples
