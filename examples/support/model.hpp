// examples/support/model.hpp - where the embedded model lies, and how a folder or a GGUF file
// becomes a checkpoint.
//
// Reading files takes a compiler long, so it is compiled once, in model.cpp.
//
// Depends on  io/checkpoint.hpp, io/load_options.hpp, io/tokenizer.hpp, support/options.hpp
// Tested by   tests/examples/CMakeLists.txt, which starts an example from another folder
#pragma once

#include <decant/io/checkpoint.hpp>
#include <decant/io/load_options.hpp>
#include <decant/io/tokenizer.hpp>
#include <decant/model/config.hpp>

#include "support/options.hpp"

#include <string>

namespace examples {

// The embedded model: in a folder above the executable, so that a built tree may be moved, or else
// where it was when the example was compiled.
std::string default_model_folder();

CLI::Option* add_model(CLI::App& app, std::string& path, const std::string& about);

// How weights are stored, and what products do to the rows beside them.
void add_load_options(CLI::App& app, decant::io::LoadOptions& options);

// The checkpoint at `path`; what is odd about it, but not wrong, goes to standard error.
decant::io::Checkpoint load(const std::string& path, const decant::io::LoadOptions& options = {});

// Its tokenizer, and its shape alone.
decant::io::Tokenizer load_tokenizer(const std::string& path);
decant::model::Config read_config(const std::string& path);

}  // namespace examples
