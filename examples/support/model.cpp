#include "support/model.hpp"

#include <decant/checkpoints/load_adapter.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kernels/product.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/options.hpp"

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

CommandLine::Option add_model(CommandLine& command, std::string& path, const std::string& about) {
  return command.add_nonempty_text("--model", path, about, "FOLDER|FILE");
}

void add_weights(CommandLine& command, checkpoints::LoadOptions& options) {
  const auto weights = [&options](const std::string& text) {
    options.weights = parse_type(text);
    const bool known = options.weights && !codec::is_scaled(*options.weights);
    if (known || text == "as-stored") return std::string();
    return sentence("\"", text, "\" is not as-stored, f32, bf16, f16, q8_0 or q4_0");
  };
  command.add("--weights", "as-stored|f32|bf16|f16|q8_0|q4_0", "format of the weights (as-stored)",
              weights);
}

void add_load_options(CommandLine& command, checkpoints::LoadOptions& options) {
  using kernels::Activations;
  add_weights(command, options);
  const auto activations = [&options](const std::string& text) {
    if (text != "quantised" && text != "full") {
      return sentence("\"", text, "\" is not quantised or full");
    }
    options.activations = text == "full" ? Activations::full : Activations::quantised;
    return std::string();
  };
  command.add("--activations", "quantised|full",
              "activations in products (quantised for q8_0 and q4_0, else full)", activations);
}

checkpoints::Checkpoint load(const std::string& path, const checkpoints::LoadOptions& options) {
  checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(path, options);
  for (const std::string& warning : checkpoint.warnings) std::cerr << "note: " << warning << '\n';
  return checkpoint;
}

checkpoints::Checkpoint load_draft_model(const std::string& path, const text::Tokenizer& tokenizer,
                                         const checkpoints::LoadOptions& options) {
  const text::Tokenizer own = load_tokenizer(path);
  if (const auto id = tokenizer.first_difference(own)) {
    expects<UsageError>(false, "--draft-model: its token ", *id, " is \"",
                        files::printable(*own.spelling(*id)), "\", and the model's \"",
                        files::printable(*tokenizer.spelling(*id)), '"');
  }
  return load(path, options);
}

std::shared_ptr<const model::Adapter> load_adapter(const std::string& folder,
                                                   const model::Config& config) {
  return checkpoints::load_adapter(folder, config);
}

text::Tokenizer load_tokenizer(const std::string& path) { return text::load_tokenizer(path); }

std::vector<Token> encode(const text::Tokenizer& tokenizer, std::string_view text,
                          const std::string& argument, const model::Config& config,
                          const std::string& path, const text::EncodeOptions& options) {
  const std::vector<Token> tokens =
      checked(argument, [&] { return tokenizer.encode(text, options); });
  if (tokens.size() > 1 && tokens[0] == tokens[1] && tokenizer.is_special(tokens[0])) {
    std::cerr
        << "note: " << argument << " begins with \"" << *tokenizer.spelling(tokens[0])
        << "\", which the tokenizer puts in front of it too; --no-special leaves its own out\n";
  }
  for (Token token : tokens) {
    expects<FormatError>(token < config.vocabulary, path, ": its tokenizer has a token ", token,
                         ", the model a vocabulary of ", config.vocabulary);
  }
  return tokens;
}

void check_length(const std::string& argument, Index tokens, const model::Config& config) {
  expects<UsageError>(tokens <= config.max_positions, argument, ": ", counted(tokens, "token"),
                      ", the model was made for ", config.max_positions);
}

model::Config read_config(const std::string& path) { return checkpoints::read_config(path); }

}  // namespace examples
