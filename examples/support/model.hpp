// examples/support/model.hpp - where the embedded model lies, and how a folder becomes a
// checkpoint.
//
// Depends on  io/checkpoint.hpp, support/options.hpp
// Tested by   tests/examples/CMakeLists.txt, which starts an example from another folder
#pragma once

#include <decant/io/checkpoint.hpp>

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

inline CLI::Option* add_model(CLI::App& app, std::string& folder, const std::string& about) {
  return app.add_option("--model", folder, about)->type_name("FOLDER")->check(not_empty());
}

// The checkpoint in `folder`; what is odd about it, but not wrong, goes to standard error.
inline decant::io::Checkpoint load(const std::string& folder) {
  decant::io::Checkpoint checkpoint = decant::io::load_checkpoint(folder);
  for (const std::string& remark : checkpoint.remarks) std::cerr << "note: " << remark << '\n';
  return checkpoint;
}

}  // namespace examples
