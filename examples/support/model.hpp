// examples/support/model.hpp - where the embedded model lies, and how a folder or a GGUF file
// becomes a checkpoint.
//
// Depends on  io/checkpoint.hpp, io/load_options.hpp, support/options.hpp
// Tested by   tests/examples/CMakeLists.txt, which starts an example from another folder
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/io/checkpoint.hpp>
#include <decant/io/load_options.hpp>
#include <decant/kernels/packed_blocks.hpp>

#include "support/options.hpp"

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

namespace examples {

// The embedded model: in a folder above the executable, so that a built tree may be moved, or else
// where it was when the example was compiled.
inline std::string default_model_folder() {
  std::error_code absent;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", absent).parent_path();
  while (!absent && folder.has_relative_path()) {
    const auto model = folder / "examples" / "models" / "shakespeare";
    if (exists(model / "config.json", absent)) return model.string();
    folder = folder.parent_path();
  }
  return (std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare").string();
}

inline CLI::Option* add_model(CLI::App& app, std::string& path, const std::string& about) {
  return app.add_option("--model", path, about)->type_name("FOLDER|FILE.gguf")->check(not_empty());
}

// How weights are stored, and what products do to their rows where that is in blocks.
inline void add_load_options(CLI::App& app, decant::io::LoadOptions& options) {
  using decant::kernels::Activations;
  const auto refuse = [](const std::string& option, const std::string& text, const char* names) {
    throw CLI::ValidationError(option, sentence("\"", text, "\" is not ", names));
  };
  const auto weights = [&options, refuse](const std::string& text) {
    options.weights = parse_type(text);
    if (!options.weights && text != "as-stored") {
      refuse("--weights", text, "as-stored, f32, bf16, f16, q8_0 or q4_0");
    }
  };
  const auto activations = [&options, refuse](const std::string& text) {
    if (text != "quantised" && text != "full") {
      refuse("--activations", text, "quantised or full");
    }
    options.activations = text == "full" ? Activations::full : Activations::quantised;
  };
  app.add_option_function<std::string>("--weights", weights, "numbers of the weights (as-stored)")
      ->type_name("as-stored|f32|bf16|f16|q8_0|q4_0");
  app.add_option_function<std::string>("--activations", activations,
                                       "what q8_0 and q4_0 multiply (quantised)")
      ->type_name("quantised|full");
}

// The checkpoint at `path`; what is odd about it, but not wrong, goes to standard error.
inline decant::io::Checkpoint load(const std::string& path,
                                   const decant::io::LoadOptions& options = {}) {
  decant::io::Checkpoint checkpoint = decant::io::load_checkpoint(path, options);
  for (const std::string& remark : checkpoint.remarks) std::cerr << "note: " << remark << '\n';
  return checkpoint;
}

}  // namespace examples
