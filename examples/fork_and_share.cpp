// fork_and_share: several continuations of one prompt, which is computed and stored only once.
//
// You learn that a sequence in pages is forked at no cost of memory: a fork shares all pages of its
// origin, and only what it writes itself takes new ones.
#include <decant/decoding/generate.hpp>

#include <decant/codec/plain.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/decoder.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Cell = codec::BF16;

struct Options {
  std::string model = examples::default_model_folder();
  std::string prompt =
      "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n"
      "First Citizen:\nYou are all resolved rather to die than to famish?\n\nAll:\n";
  Index samples = 4, new_tokens = 24, page_tokens = 16;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--prompt", options.prompt,
                            "the text to continue (from the training text)");
  examples::add_number(command, "--samples", options.samples, "continuations (4)", 1, 1000);
  examples::add_number(command, "--max-new-tokens", options.new_tokens, "tokens of each (24)", 1,
                       1 << 20);
  examples::add_threads(command, options.threads);
}

// The pages that `samples` sequences take when each has the prompt for itself.
Index pages_of_copies(const Options& options, Index prompt) {
  return options.samples * ceil_div(prompt + options.new_tokens, options.page_tokens);
}

void fork_and_share(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const std::vector<Token> prompt =
      examples::encode(tokenizer, options.prompt, "--prompt", checkpoint.config, options.model);
  examples::check_length("--prompt", std::ssize(prompt), checkpoint.config);
  decoding::GenerateOptions generate = {
      .max_new_tokens = options.new_tokens,
      .stop = {.end_tokens = checkpoint.end_tokens},
      .sampler = {.temperature = 0.7},
      .banned_tokens = tokenizer.unused_ids(checkpoint.config.vocabulary)};
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(), {.rows = 256}, threads);
  const Index copies = pages_of_copies(options, std::ssize(prompt));
  kv::PagePool<Cell> pool(decoder.config().geometry(), copies + 1, options.page_tokens);

  kv::Paged<Cell> origin(pool);
  generate.max_new_tokens = 0;
  decoding::generate(decoder, origin, workspace, prompt, generate);  // computes the prompt
  const Index of_prompt = pool.used_pages();

  generate.max_new_tokens = options.new_tokens;
  std::vector<kv::Paged<Cell>> forks;
  for (Index sample = 0; sample < options.samples; ++sample) {
    forks.push_back(origin.fork());
    generate.sequence = static_cast<std::uint64_t>(sample);
    generate.cached_tokens = origin.end();
    const auto result = decoding::generate(decoder, forks.back(), workspace, prompt, generate);
    text::TextStream text(tokenizer, prompt);
    std::cout << sample + 1 << ": ";
    for (Token token : result.tokens) std::cout << text.push(token);
    std::cout << text.finish() << "\n\n";
  }
  std::cout << "prompt         " << examples::counted(std::ssize(prompt), "token") << ", "
            << examples::counted(of_prompt * pool.page_bytes(), "byte") << "\nforks          "
            << examples::counted(pool.used_pages() * pool.page_bytes(), "byte")
            << " with the prompt\nnaive copies   "
            << examples::counted(copies * pool.page_bytes(), "byte") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("fork_and_share",
                                "Continues one prompt several times, on forks of one cache.");
  declare(command, options);
  return command.run(argc, argv, [&] { fork_and_share(options); });
}
