// speculative: draft tokens save steps and change no token.
//
// You learn how a drafter is handed to a run, that the tokens are those of a run without it, and
// when drafting pays: if a text repeats itself, or a smaller model often agrees.
#include <decant/decoding/generate.hpp>

#include <decant/codec/plain.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/model_drafter.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/decoder.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/drafts.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Store = kv::Contiguous<codec::BF16>;

constexpr Index kDraftTokens = 8;

struct Options {
  std::string model = examples::default_model_folder();
  std::string draft_model;
  std::string prompt = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\n\nROMEO:\n";
  Index new_tokens = 120;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--draft-model", options.draft_model,
                            "the draft model (the model itself, which is always right)",
                            "FOLDER|FILE");
  command.add_nonempty_text("--prompt", options.prompt, "the text to continue (of Juliet's)");
  examples::add_number(command, "--max-new-tokens", options.new_tokens, "tokens to generate (120)",
                       2, 1 << 16);
  examples::add_threads(command, options.threads);
}

void print_row(const char* drafter, const decoding::Statistics& of) {
  std::cout << std::left << std::setw(14) << drafter << std::right << std::setw(8)
            << of.generated_tokens << std::setw(8) << of.generated_tokens - of.accepted_tokens
            << std::setw(10) << of.proposed_tokens << std::setw(10) << of.accepted_tokens
            << std::fixed << std::setprecision(3) << std::setw(14)
            << of.time_per_output_token() * 1e3 << '\n';
}

void speculative(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const std::vector<Token> prompt =
      examples::encode(tokenizer, options.prompt, "--prompt", checkpoint.config, options.model);
  examples::check_length("--prompt and --max-new-tokens", std::ssize(prompt) + options.new_tokens,
                         checkpoint.config);
  checkpoints::Checkpoint small = examples::load_draft_model(
      options.draft_model.empty() ? options.model : options.draft_model, tokenizer);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  const model::Decoder draft_model(std::move(small.config), std::move(small.weights));
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(), {.rows = 64, .logit_rows = 1 + kDraftTokens},
                             threads);
  const decoding::GenerateOptions generate = {.max_new_tokens = options.new_tokens,
                                              .sampler = {.temperature = 0.4, .seed = 3}};
  const auto sink = [](Token) { return true; };
  const auto run = [&](auto& drafter) {
    Store store(decoder.config().geometry(), std::ssize(prompt) + options.new_tokens);
    return decoding::generate(decoder, store, workspace, prompt, generate, sink, drafter);
  };

  decoding::NoDrafts none;
  const auto plain = run(none);
  decoding::NgramDrafter ngram{.most = kDraftTokens};
  const auto looked_up = run(ngram);
  Store drafts(draft_model.config().geometry(), std::ssize(prompt) + options.new_tokens);
  model::Workspace room(draft_model.config(), {.rows = 64}, threads);
  decoding::ModelDrafter model(draft_model, drafts, room, generate.sampler, generate.sequence, 4);
  const auto drafted = run(model);
  expects<std::runtime_error>(plain.tokens == looked_up.tokens && plain.tokens == drafted.tokens,
                              "draft tokens changed a token");

  text::TextStream text(tokenizer, prompt);
  std::cout << options.prompt;
  for (Token token : plain.tokens) std::cout << text.push(token);
  std::cout << text.finish()
            << "\n\ndrafts         tokens   steps  proposed  accepted  ms per token\n";
  print_row("none", plain.statistics);
  print_row("look-up", looked_up.statistics);
  print_row("a model", drafted.statistics);
  std::cout << "\nThe same tokens, each time.\n";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("speculative", "Generates with draft tokens, and without.");
  declare(command, options);
  return command.run(argc, argv, [&] { speculative(options); });
}
