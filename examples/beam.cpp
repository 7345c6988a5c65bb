// beam: the most probable continuations of a prompt, and what several cost.
//
// You learn how to search over forks of one store, what a length penalty does, and that beams share
// the pages of what they have in common.
#include <decant/decoding/beam.hpp>

#include <decant/codec/plain.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/decoder.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Cell = codec::BF16;

constexpr Index kPageTokens = 16;

struct Options {
  std::string model = examples::default_model_folder();
  std::string prompt = "ROMEO:\nO, ";
  decoding::BeamOptions search = {.beams = 4, .answers = 4, .max_new_tokens = 24};
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--prompt", options.prompt, "the text to continue (\"ROMEO:\\nO, \")");
  examples::add_number(command, "--beams", options.search.beams, "searched at once (4)", 1, 256);
  examples::add_number(command, "--max-new-tokens", options.search.max_new_tokens,
                       "tokens of each (24)", 1, 1 << 16);
  constexpr double kMost = std::numeric_limits<double>::max();
  examples::add_number(command, "--length-penalty", options.search.length_penalty,
                       "above 0 long answers gain (1)", -kMost, kMost);
  examples::add_threads(command, options.threads);
}

void beam(Options options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const std::vector<Token> prompt =
      examples::encode(tokenizer, options.prompt, "--prompt", checkpoint.config, options.model);
  decoding::BeamOptions& search = options.search;
  examples::check_length("--prompt and --max-new-tokens",
                         std::ssize(prompt) + search.max_new_tokens, checkpoint.config);
  search.answers = search.beams;
  search.end_tokens = checkpoint.end_tokens;
  search.banned_tokens = tokenizer.unused_ids(checkpoint.config.vocabulary);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(),
                             {.rows = std::max<Index>(search.beams, 64),
                              .logit_rows = search.beams,
                              .sequences = search.beams},
                             threads);
  // Old and new beams exist together for a moment, and each may need a page of its own to write.
  const Index pages = ceil_div(std::ssize(prompt) + search.max_new_tokens, kPageTokens) + 1;
  kv::PagePool<Cell> pool(decoder.config().geometry(), 2 * search.beams * pages, kPageTokens);
  kv::Paged<Cell> store(pool);
  const auto answers = decoding::beam_search(decoder, store, workspace, prompt, search);
  std::cout << std::fixed << std::setprecision(3);
  for (const decoding::BeamAnswer& answer : answers) {
    text::TextStream text(tokenizer, prompt);
    std::cout << answer.score << "  ";
    for (Token token : answer.tokens) std::cout << text.push(token);
    std::cout << text.finish() << "\n\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("beam", "Finds the most probable continuations of a text.");
  declare(command, options);
  return command.run(argc, argv, [&] { beam(options); });
}
