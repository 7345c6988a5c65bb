// generate: continues a text and shows it while it grows.
//
// You learn what a program around decant consists of: a decoder and a tokenizer from a checkpoint,
// a store that holds keys and values, a workspace, and one call whose sink gets each token at once.
#include <decant/decoding/generate.hpp>

#include <decant/core/thread_pool.hpp>
#include <decant/io/load_options.hpp>
#include <decant/io/new_file.hpp>
#include <decant/io/text_stream.hpp>
#include <decant/io/tokenizer.hpp>
#include <decant/kv/block.hpp>
#include <decant/model/decoder.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/prefix_file.hpp"
#include "support/profile.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace decant;

struct Options {
  std::string model = examples::default_model_folder();
  std::string prompt = "ROMEO:";
  decoding::GenerateOptions generate = {.max_new_tokens = 100, .sampler = {.temperature = 0.8}};
  io::LoadOptions load;
  examples::StoreOptions store;
  std::string load_prefix, save_prefix;
  Index threads = examples::default_threads();
  bool stats = false;
  bool profile = false;
};

void declare(examples::CommandLine& command, Options& options) {
  decoding::SamplerOptions& sampler = options.generate.sampler;
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_text("--prompt", options.prompt, "the text to continue (\"ROMEO:\")");
  const auto number = [&command]<class Number>(const std::string& name, Number& value,
                                               const std::string& about,
                                               Number most = std::numeric_limits<Number>::max()) {
    examples::add_number(command, name, value, about, 0, most);
  };
  number("--max-new-tokens", options.generate.max_new_tokens, "at most so many (100)");
  number("--temperature", sampler.temperature, "0 takes the most probable token (0.8)");
  number("--top-k", sampler.top_k, "of the k most probable tokens; 0: of all (0)");
  number("--top-p", sampler.top_p, "of the most probable up to this mass (1)", 1.0);
  number("--min-p", sampler.min_p, "of those so probable beside the best (0)");
  number("--seed", sampler.seed, "which random numbers (0)");
  examples::add_load_options(command, options.load);
  examples::add_store_options(command, options.store);
  command.add_nonempty_text("--load-prefix", options.load_prefix,
                            "a file of --save-prefix: what it has of the prompt is not computed");
  command.add_nonempty_text("--save-prefix", options.save_prefix,
                            "where the keys and values of prompt and text go");
  examples::add_threads(command, options.threads);
  command.add_flag("--recompute", options.generate.recompute, "no reuse; the text is the same");
  command.add_flag("--stats", options.stats, "counts and times to standard error");
  command.add_flag("--profile", options.profile, "time by kind of operation to standard error");
}

// The prompt in tokens; of an empty one, the token that begins a text.
std::vector<Token> encode(const Options& options, const io::Tokenizer& tokenizer,
                          const io::Checkpoint& checkpoint) {
  std::vector<Token> tokens =
      examples::checked("--prompt", [&] { return tokenizer.encode(options.prompt); });
  if (tokens.empty() && checkpoint.begin_token) tokens.push_back(*checkpoint.begin_token);
  expects<examples::UsageError>(!tokens.empty(), "--prompt: is empty, and the model has no token ",
                                "that begins a text");
  expects<examples::UsageError>(std::ssize(tokens) <= checkpoint.config.max_positions,
                                "--prompt: has ", tokens.size(), " tokens, the model was made for ",
                                checkpoint.config.max_positions);
  const Token largest = *std::ranges::max_element(tokens);
  expects<FormatError>(largest < checkpoint.config.vocabulary, options.model,
                       ": its tokenizer has a token ", largest, ", the model a vocabulary of ",
                       checkpoint.config.vocabulary);
  return tokens;
}

void print(const decoding::Generation& generation) {
  const decoding::Statistics& of = generation.statistics;
  std::cerr << "prompt tokens          " << of.prompt_tokens << '\n'
            << "cached tokens          " << of.cached_tokens << '\n'
            << "generated tokens       " << of.generated_tokens << ", ended by "
            << name(generation.reason) << '\n'
            << "time to first token    " << of.time_to_first_token * 1e3 << " ms\n"
            << "time per output token  " << of.time_per_output_token() * 1e3 << " ms\n"
            << "prefill                " << of.prefill_tokens_per_second() << " tokens/s\n"
            << "decode                 " << of.decode_tokens_per_second() << " tokens/s\n"
            << "cache                  " << examples::grouped(of.cache_bytes) << " bytes\n";
}

// Prints prompt and continuation; the prompt waits for the first token, so that whatever fails
// before it fails with nothing printed.
template <kv::Store S>
decoding::Generation stream(const Options& options, const io::Tokenizer& tokenizer,
                            const model::Decoder& decoder, S& store, Index chunk,
                            const std::vector<Token>& prompt) {
  ThreadPool threads(options.threads);
  model::WaitingExecutor watched(threads);
  model::Workspace workspace(decoder.config(), {.rows = chunk},
                             options.profile ? static_cast<Executor&>(watched) : threads);
  model::Profile profile;
  if (options.profile) workspace.set_profile(&profile);

  io::TextStream text(tokenizer, prompt);
  std::string waiting = options.prompt;
  const auto show = [&](Token token) {
    std::cout << std::exchange(waiting, "") << text.push(token) << std::flush;
    return std::cout.good();
  };
  if (!options.load_prefix.empty()) {
    examples::load_prefix(options.load_prefix, decoder, prompt, store);
  }
  auto generation = generate(decoder, store, workspace, prompt, options.generate, show);
  std::cout << waiting << text.finish() << '\n';
  if (!options.save_prefix.empty()) {
    std::vector<Token> tokens = prompt;
    tokens.insert(tokens.end(), generation.tokens.begin(), generation.tokens.end());
    examples::save_prefix(options.save_prefix, decoder, tokens, store);
  }
  if (options.profile) {
    examples::print(std::cerr, profile, watched.seconds(), examples::measure_bounds(threads));
  }
  return generation;
}

void generate(Options options) {
  io::Checkpoint checkpoint = examples::load(options.model, options.load);
  const io::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  if (!options.save_prefix.empty()) io::NewFile(options.save_prefix);  // or fails before a word
  const std::vector<Token> prompt = encode(options, tokenizer, checkpoint);
  options.generate.stop.end_tokens = checkpoint.end_tokens;
  examples::set_window(options.store, checkpoint.config);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  const Index room = decoder.config().max_positions - std::ssize(prompt);
  const Index capacity = std::ssize(prompt) + std::min(room, options.generate.max_new_tokens);
  const Index chunk = std::min<Index>(capacity, 512);
  const auto generation = examples::with_store(
      options.store, decoder.config(), capacity, chunk,
      [&](auto& store) { return stream(options, tokenizer, decoder, store, chunk, prompt); });
  if (generation.reason == decoding::Reason::cache_full) {
    std::cerr << "note: the text fills the " << decoder.config().max_positions
              << " positions that the model was made for\n";
  }
  if (options.stats) print(generation);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("generate", "Continues a text, from a checkpoint.");
  declare(command, options);
  return command.run(argc, argv, [&] { generate(options); });
}
