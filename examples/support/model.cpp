#include "support/model.hpp"

#include <decant/codec/concept.hpp>
#include <decant/io/load_tokenizer.hpp>
#include <decant/kernels/packed.hpp>

#include <filesystem>
#include <iostream>
#include <system_error>

namespace examples {

using namespace decant;

std::string default_model_folder() {
  std::error_code absent;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", absent).parent_path();
  while (!absent && folder.has_relative_path()) {
    const auto model = folder / "examples" / "models" / "shakespeare";
    if (exists(model / "config.json", absent)) return model.string();
    folder = folder.parent_path();
  }
  return (std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare").string();
}

CLI::Option* add_model(CLI::App& app, std::string& path, const std::string& about) {
  return app.add_option("--model", path, about)->type_name("FOLDER|FILE.gguf")->check(not_empty());
}

void add_load_options(CLI::App& app, io::LoadOptions& options) {
  using kernels::Activations;
  const auto refuse = [](const std::string& option, const std::string& text, const char* names) {
    throw CLI::ValidationError(option, sentence("\"", text, "\" is not ", names));
  };
  const auto weights = [&options, refuse](const std::string& text) {
    options.weights = parse_type(text);
    const bool known = options.weights && !codec::is_scaled(*options.weights);
    if (!known && text != "as-stored") {
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
                                       "rows of products (quantised by q8_0 and q4_0, else full)")
      ->type_name("quantised|full");
}

io::Checkpoint load(const std::string& path, const io::LoadOptions& options) {
  io::Checkpoint checkpoint = io::load_checkpoint(path, options);
  for (const std::string& remark : checkpoint.remarks) std::cerr << "note: " << remark << '\n';
  return checkpoint;
}

io::Tokenizer load_tokenizer(const std::string& path) { return io::load_tokenizer(path); }

model::Config read_config(const std::string& path) { return io::read_config(path); }

}  // namespace examples
