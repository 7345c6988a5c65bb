// logits: writes a model's logits after each of the given tokens to a file.
//
// You learn the one operation below every kind of decoding, a step that appends tokens to a store,
// and that it does not matter how a sequence is split into steps: the files are the same.
#include <decant/model/decoder.hpp>

#include <decant/checkpoints/checkpoint.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/files/new_file.hpp>
#include <decant/kv/store.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

struct Options {
  std::string model, tokens, out, chunks;
  checkpoints::LoadOptions load;
  examples::StoreOptions store;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint").required();
  command.add_text("--tokens", options.tokens, "token ids, as in \"1 2 3\"").required();
  command.add_nonempty_text("--out", options.out, "a row of f32 for every token", "FILE")
      .required();
  command.add_text("--chunks", options.chunks, "tokens of each step, as in \"2 1\"");
  examples::add_load_options(command, options.load);
  examples::add_store_options(command, options.store);
  examples::add_threads(command, options.threads);
}

std::vector<Token> tokens_of(const Options& options, Index vocabulary) {
  std::vector<Token> tokens;
  for (Index id : examples::integers("--tokens", options.tokens, 0)) {
    expects<examples::UsageError>(id < vocabulary, "--tokens: ", id, " is not in [0, ", vocabulary,
                                  "), the model's vocabulary");
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

// How many tokens each step takes: as asked, or 64, so that rows of logits stay few.
std::vector<Index> chunks_of(const Options& options, Index tokens) {
  std::vector<Index> chunks;
  if (options.chunks.empty()) {
    for (Index left = tokens; left > 0; left -= 64) chunks.push_back(std::min<Index>(left, 64));
    return chunks;
  }
  chunks = examples::integers("--chunks", options.chunks, 1);
  Index left = tokens;
  for (Index chunk : chunks) left = chunk <= left ? left - chunk : -1;
  expects<examples::UsageError>(left == 0, "--chunks: \"", options.chunks,
                                "\" does not add up to the ", tokens, " tokens");
  return chunks;
}

void check_finite(std::span<const float> logits, Position position) {
  const auto odd = std::ranges::find_if_not(logits, [](float x) { return std::isfinite(x); });
  expects<std::runtime_error>(odd == logits.end(), "the logit of token ", odd - logits.begin(),
                              " at position ", position, " is not finite");
}

template <kv::Store S>
void write(const Options& options, const model::Decoder& decoder, S& store,
           std::span<const Token> tokens, const std::vector<Index>& chunks) {
  const Index rows = std::ranges::max(chunks);
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(), {.rows = rows, .logit_rows = rows}, threads);
  files::NewFile file(options.out);
  model::Batch<S> batch;
  for (Index chunk : chunks) {
    const auto first = static_cast<std::size_t>(store.end());
    batch.clear();
    batch.add(store, tokens.subspan(first, static_cast<std::size_t>(chunk)), model::Logits::all);
    decoder.step(batch, workspace);
    for (Index row = 0; row < chunk; ++row) {
      check_finite(workspace.logits(row), store.end() - chunk + row);
      file.write(std::as_bytes(workspace.logits(row)));
    }
  }
  file.commit();
}

void logits(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model, options.load);
  const std::vector<Token> tokens = tokens_of(options, checkpoint.config.vocabulary);
  examples::check_length("--tokens", std::ssize(tokens), checkpoint.config);
  const std::vector<Index> chunks = chunks_of(options, std::ssize(tokens));
  examples::set_window(options.store, checkpoint.config);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  examples::with_store(options.store, decoder.config(), std::ssize(tokens),
                       std::ranges::max(chunks),
                       [&](auto& store) { write(options, decoder, store, tokens, chunks); });
  std::cout << options.out << ": " << examples::counted(std::ssize(tokens), "row") << " of "
            << examples::counted(decoder.config().vocabulary, "logit") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command(
      "logits", "Writes a model's logits after each of some tokens, raw little-endian f32.");
  declare(command, options);
  return command.run(argc, argv, [&] { logits(options); });
}
