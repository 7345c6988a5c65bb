// generate: continues a text and shows it while it grows.
//
// You learn what a program around decant consists of: a decoder and a tokenizer from a checkpoint,
// a store that holds keys and values, a workspace, and one call whose sink gets each token at once.
#include <decant/decoding/generate.hpp>

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/files/new_file.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/decoder.hpp>
#include <decant/simd/instruction_set.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/drafts.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/prefix_file.hpp"
#include "support/profile.hpp"
#include "support/sampler.hpp"
#include "support/several.hpp"
#include "support/stops.hpp"
#include "support/store.hpp"
#include "support/token_text.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

constexpr Index kDraftRows = 9;  // of logits: a token and eight draft tokens

struct Options {
  std::string model = examples::default_model_folder();
  std::string prompt = "ROMEO:";
  bool no_special = false;
  decoding::GenerateOptions generate = {.max_new_tokens = 100};
  examples::SamplerChoice sampler;
  checkpoints::LoadOptions load;
  examples::StoreOptions store;
  std::string adapter;
  std::string load_prefix, save_prefix;
  examples::DraftOptions drafts;
  examples::SeveralOptions several;
  Index threads = examples::default_threads();
  bool stats = false;
  bool profile = false;
};

void declare(examples::CommandLine& command, Options& options) {
  decoding::GenerateOptions& generate = options.generate;
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--adapter", options.adapter, "a LoRA adapter that PEFT wrote",
                            "FOLDER");
  command.add_text("--prompt", options.prompt, "the text to continue (\"ROMEO:\")");
  command.add_flag("--no-special", options.no_special,
                   "without the special tokens that the tokenizer puts around a prompt");
  examples::add_number(command, "--max-new-tokens", generate.max_new_tokens,
                       "at most so many (100)", 0);
  examples::add_number(command, "--max-seconds", generate.max_seconds, "no longer than that", 0);
  command
      .add("--stop", "TEXT", "where the text ends; may be given again",
           [&options](const std::string& text) {
             options.generate.stop.stop_strings.push_back(text);
             return text.empty() ? "is empty" : std::string();
           })
      .repeatable();
  command
      .add("--stop-id", "ID", "a token where the text ends; may be given again",
           [&options](const std::string& text) {
             const auto token = examples::parse<Token>(text);
             if (!token || *token < 0) return examples::sentence("\"", text, "\" is not an id");
             options.generate.stop.stop_tokens.push_back(*token);
             return std::string();
           })
      .repeatable();
  examples::add_filters(command, options.sampler);
  examples::add_penalties(command, options.sampler);
  command.add("--logprobs", "N",
              "log-probabilities of each token and the N best, to standard error",
              [&generate](const std::string& text) {
                generate.log_probabilities = examples::parse<Index>(text);
                const bool fits = generate.log_probabilities.value_or(-1) >= 0;
                return fits ? std::string()
                            : examples::sentence("\"", text, "\" is not an integer of at least 0");
              });
  examples::add_load_options(command, options.load);
  examples::add_store_options(command, options.store);
  command.add_nonempty_text("--load-prefix", options.load_prefix,
                            "a file of --save-prefix: what it has of the prompt is not computed",
                            "FILE");
  command.add_nonempty_text("--save-prefix", options.save_prefix,
                            "where the keys and values of prompt and text go", "FILE");
  examples::add_drafts(command, options.drafts);
  examples::add_several(command, options.several);
  examples::add_threads(command, options.threads);
  command.add_flag("--recompute", options.generate.recompute, "no reuse; the text is the same");
  command.add_flag("--stats", options.stats, "counts and times to standard error");
  command.add_flag("--profile", options.profile, "time by kind of operation to standard error");
}

// The prompt in tokens; of an empty one, the token that begins a text.
std::vector<Token> encode(const Options& options, const text::Tokenizer& tokenizer,
                          const checkpoints::Checkpoint& checkpoint) {
  std::vector<Token> tokens =
      examples::encode(tokenizer, options.prompt, "--prompt", checkpoint.config, options.model,
                       {.add_special = !options.no_special});
  if (tokens.empty() && checkpoint.begin_token) tokens.push_back(*checkpoint.begin_token);
  expects<examples::UsageError>(!tokens.empty(), "--prompt: is empty, and the model has no token ",
                                "that begins a text");
  examples::check_length("--prompt", std::ssize(tokens), checkpoint.config);
  return tokens;
}

void print(const decoding::Generation& generation) {
  const decoding::Statistics& of = generation.statistics;
  std::cerr << "prompt tokens          " << of.prompt_tokens << '\n'
            << "cached tokens          " << of.cached_tokens << '\n'
            << "generated tokens       " << of.generated_tokens << ", ended by "
            << name(generation.reason) << '\n'
            << "accepted drafts        " << of.accepted_tokens << " of " << of.proposed_tokens
            << '\n'
            << "time to first token    " << of.time_to_first_token * 1e3 << " ms\n"
            << "time per output token  " << of.time_per_output_token() * 1e3 << " ms\n"
            << "prefill                " << of.prefill_tokens_per_second() << " tokens/s\n"
            << "decode                 " << of.decode_tokens_per_second() << " tokens/s\n"
            << "cache                  " << examples::grouped(of.cache_bytes) << " bytes\n"
            << "instruction set        " << simd::instruction_set() << '\n';
}

// A line for each token: the one that was taken, then the most probable ones; of each its
// log-probability, its id and its bytes.
void print_log_probabilities(const decoding::Generation& generation,
                             const text::Tokenizer& tokenizer) {
  const auto show = [&](const decoding::LogProbability& of) {
    std::cerr << of.value << ' ' << of.token << " \""
              << examples::escaped(tokenizer.bytes_of(of.token).value_or("")) << '"';
  };
  for (const decoding::LogProbabilities& place : generation.log_probabilities) {
    show(place.taken);
    for (const decoding::LogProbability& best : place.top) {
      std::cerr << "  ";
      show(best);
    }
    std::cerr << '\n';
  }
}

// Prints prompt and continuation; the prompt is printed with the first token, so that a run that
// fails before prints nothing.
template <kv::Store S>
decoding::Generation stream(const Options& options, const text::Tokenizer& tokenizer,
                            const model::Decoder& decoder, S& store, Index chunk,
                            const std::vector<Token>& prompt) {
  ThreadPool threads(options.threads);
  model::WaitingExecutor watched(threads);
  model::Workspace workspace(decoder.config(),
                             {.rows = chunk, .logit_rows = std::min(chunk, kDraftRows)},
                             options.profile ? static_cast<Executor&>(watched) : threads);
  model::Profile profile;
  if (options.profile) workspace.set_profile(&profile);

  std::string waiting = options.prompt;
  std::size_t shown = 0;
  const auto show = [&](const decoding::NewToken& next) {
    std::cout << std::exchange(waiting, "") << next.text << std::flush;
    shown += next.text.size();
    return std::cout.good();
  };
  decoding::GenerateOptions run = options.generate;
  run.text = text::TextStream(tokenizer, prompt);
  if (!options.load_prefix.empty()) {
    examples::load_prefix(options.load_prefix, decoder, prompt, store);
    run.cached_tokens = store.end();
  }
  examples::Drafter drafter = examples::drafter_of(options.drafts, options.load, options.generate,
                                                   tokenizer, store.capacity(), workspace);
  auto generation = generate(decoder, store, workspace, prompt, run, show, drafter);
  std::cout << waiting << generation.text.substr(shown) << '\n';
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

// Refuses options that do not go with several answers.
void check_several(const Options& options) {
  const char* asked = options.several.beams > 0 ? "--beams" : "--samples";
  const auto excludes = [&](bool given, const char* other) {
    expects<examples::UsageError>(!given, asked, ": excludes ", other);
  };
  excludes(options.generate.recompute, "--recompute");
  excludes(options.drafts.ngram || !options.drafts.model.empty(), "drafts");
  excludes(!options.load_prefix.empty(), "--load-prefix");
  excludes(!options.save_prefix.empty(), "--save-prefix");
  excludes(options.stats || options.profile, "--stats and --profile");
  excludes(options.generate.log_probabilities.has_value(), "--logprobs");
  if (options.several.beams == 0) return;
  excludes(options.sampler.options != examples::SamplerChoice{}.options,
           "options of sampling, which beams do not draw by");
  excludes(std::isfinite(options.generate.max_seconds), "--max-seconds");
  expects<examples::UsageError>(options.generate.max_new_tokens > 0,
                                "--max-new-tokens: 0, of beams");
  expects<examples::UsageError>(options.several.samples <= options.several.beams,
                                "--samples: ", options.several.samples, " of the best of ",
                                options.several.beams, " beams");
}

// Prints the complete answers, with an empty line between two.
void print_several(const Options& options, const text::Tokenizer& tokenizer,
                   const model::Decoder& decoder, const std::vector<Token>& prompt) {
  const auto answers =
      examples::several(options.several, options.store,
                        {tokenizer, decoder, prompt, options.generate}, options.threads);
  for (const std::string& answer : answers) {
    std::cout << (&answer == answers.data() ? "" : "\n") << options.prompt << answer << '\n';
  }
}

void generate(Options options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model, options.load);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  if (!options.save_prefix.empty()) files::NewFile(options.save_prefix);  // or fails before a word
  const std::vector<Token> prompt = encode(options, tokenizer, checkpoint);
  options.generate.stop.end_tokens = checkpoint.end_tokens;
  examples::stop_at_special_tokens(options.generate.stop, tokenizer);
  options.generate.banned_tokens = tokenizer.unused_ids(checkpoint.config.vocabulary);
  options.generate.sampler = options.sampler.resolved();
  expects<examples::UsageError>(!options.drafts.ngram || options.drafts.model.empty(),
                                "--draft-ngram: excludes --draft-model");
  examples::checked("--logit-bias", [&] {
    check(options.generate.sampler.penalties, checkpoint.config.vocabulary);
  });
  if (options.several.wanted()) {
    check_several(options);
    if (options.store.kind == "contiguous") options.store.kind = "paged";  // to share the prompt
  }
  examples::set_window(options.store, checkpoint.config);
  if (!options.adapter.empty()) {
    const bool saved = !options.load_prefix.empty() || !options.save_prefix.empty();
    expects<examples::UsageError>(!saved, "--adapter: excludes --load-prefix and --save-prefix");
    options.generate.adapter = examples::load_adapter(options.adapter, checkpoint.config);
  }
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  const Index room = decoder.config().max_positions - std::ssize(prompt);
  const Index capacity = std::ssize(prompt) + std::min(room, options.generate.max_new_tokens);
  const Index chunk = std::min<Index>(capacity, 512);
  if (options.several.wanted()) {
    options.generate.max_new_tokens = capacity - std::ssize(prompt);
    return print_several(options, tokenizer, decoder, prompt);
  }
  const decoding::Generation generation = examples::with_store(
      options.store, decoder.config(), capacity, chunk,
      [&](auto& store) { return stream(options, tokenizer, decoder, store, chunk, prompt); });
  if (generation.reason == decoding::Reason::cache_full) {
    std::cerr << "note: the text fills the " << decoder.config().max_positions
              << " positions that the model was made for\n";
  }
  if (options.stats) print(generation);
  if (options.generate.log_probabilities) print_log_probabilities(generation, tokenizer);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("generate", "Continues a text, from a checkpoint.");
  declare(command, options);
  return command.run(argc, argv, [&] { generate(options); });
}
