// long_chat: a conversation that grows longer than the model's sliding window.
//
// You learn that a session, whose store is reused between turns, saves computing the conversation
// again, that a ring holds the window of a conversation of any length, and that neither changes an
// answer: every turn is also computed from an empty store, and compared.
#include <decant/decoding/generate.hpp>
#include <decant/decoding/session.hpp>

#include <decant/codec/plain.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/decoder.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Store = kv::Ring<codec::BF16>;

constexpr Index kChunk = 64;  // tokens of one step

constexpr std::array<const char*, 4> kLines = {
    "\n\nROMEO:\nWhat light through yonder window breaks?\n\nJULIET:\n",
    "\n\nROMEO:\nI take thee at thy word. Call me but love.\n\nJULIET:\n",
    "\n\nROMEO:\nWith love's light wings did I o'er-perch these walls.\n\nJULIET:\n",
    "\n\nROMEO:\nLady, by yonder blessed moon I swear.\n\nJULIET:\n",
};

struct Options {
  std::string model = examples::default_model_folder();
  Index turns = 12, window = 128, answer = 20;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  const auto number = [&command](const std::string& name, Index& value, const std::string& about) {
    examples::add_number(command, name, value, about, 1, 4096);
  };
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  number("--turns", options.turns, "of the conversation (12)");
  number("--window", options.window, "tokens that a row sees, itself included (128)");
  number("--answer", options.answer, "tokens of an answer (20)");
  examples::add_threads(command, options.threads);
}

void print_row(Index turn, const decoding::Statistics& reused, const decoding::Statistics& fresh,
               Index bytes) {
  std::cout << std::setw(4) << turn << std::setw(15) << reused.prompt_tokens << std::setw(14)
            << reused.cached_tokens << std::setw(12) << reused.time_to_first_token * 1e3
            << std::setw(14) << fresh.time_to_first_token * 1e3 << std::setw(14)
            << examples::grouped(bytes) << '\n';
}

void long_chat(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  checkpoint.config.windows.assign(static_cast<std::size_t>(checkpoint.config.layers),
                                   options.window);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  const kv::Geometry geometry = decoder.config().geometry();
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(), {.rows = kChunk}, threads);
  decoding::Session reused(Store(geometry, options.window, kChunk));
  std::vector<Token> conversation;

  std::cout << "turn  prompt tokens  cached tokens reused, ms  computed, ms   cache bytes\n"
            << std::fixed << std::setprecision(2);
  for (Index turn = 0; turn < options.turns; ++turn) {
    const auto line =
        examples::encode(tokenizer, kLines[static_cast<std::size_t>(turn) % kLines.size()],
                         "the conversation", decoder.config(), options.model);
    conversation.insert(conversation.end(), line.begin(), line.end());
    const decoding::GenerateOptions generate = {.max_new_tokens = options.answer,
                                                .sampler = {.temperature = 0.7},
                                                .sequence = static_cast<std::uint64_t>(turn)};
    Store fresh(geometry, options.window, kChunk);
    const auto computed = decoding::generate(decoder, fresh, workspace, conversation, generate);
    const auto answer = decoding::generate(decoder, reused, workspace, conversation, generate);
    expects<std::runtime_error>(answer.tokens == computed.tokens, "the answers of turn ", turn + 1,
                                " differ");
    print_row(turn + 1, answer.statistics, computed.statistics, reused.store().bytes());
    conversation.insert(conversation.end(), answer.tokens.begin(), answer.tokens.end());
  }
  std::cout << "\nEvery answer was the same with and without the cache.\n";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command(
      "long_chat", "Holds a conversation that is longer than the model's sliding window.");
  declare(command, options);
  return command.run(argc, argv, [&] { long_chat(options); });
}
