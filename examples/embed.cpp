// embed: texts as vectors, and how alike they are.
//
// You learn how hidden states become one vector for each text, many of which share a step. Try an
// embedding model from Hugging Face with --model; the embedded one was made to write, not to
// compare.
#include <decant/codec/plain.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/embedding.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

struct Options {
  std::string model = examples::default_model_folder();
  std::vector<std::string> texts;
  model::EmbeddingOptions embedding;
  bool vectors = false;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command
      .add("--text", "TEXT", "a text; may be given again (three of them)",
           [&options](const std::string& text) {
             options.texts.push_back(text);
             return text.empty() ? "is empty" : std::string();
           })
      .repeatable();
  command.add("--pooling", "mean|last", "of all tokens, or the last one alone (last)",
              [&options](const std::string& text) {
                const bool mean = text == "mean";
                options.embedding.pooling = mean ? model::Pooling::mean : model::Pooling::last;
                const bool known = mean || text == "last";
                return known ? std::string()
                             : examples::sentence("\"", text, "\" is not mean or last");
              });
  command.add_flag("--vectors", options.vectors, "prints the vectors, of length 1");
  examples::add_threads(command, options.threads);
}

void print_likeness(const std::vector<std::vector<float>>& vectors) {
  std::cout << std::fixed << std::setprecision(3);
  for (const auto& one : vectors) {
    for (const auto& other : vectors) {
      std::cout << std::setw(8) << std::inner_product(one.begin(), one.end(), other.begin(), 0.0);
    }
    std::cout << '\n';
  }
}

void embed(Options options) {
  if (options.texts.empty())
    options.texts = {"My lord, good night.", "Good night, my lord.", "War!"};
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const model::Decoder decoder(checkpoint.config, std::move(checkpoint.weights));
  std::vector<std::vector<Token>> tokens;
  Index pages = 0;
  for (const std::string& text : options.texts) {
    tokens.push_back(examples::encode(tokenizer, text, "--text", decoder.config(), options.model));
    examples::check_length("--text", std::ssize(tokens.back()), decoder.config());
    pages += ceil_div(std::ssize(tokens.back()), 16);
  }
  kv::PagePool<codec::F32> pool(decoder.config().geometry(), pages, 16);
  std::vector<kv::Paged<codec::F32>> stores;
  for (std::size_t n = 0; n < tokens.size(); ++n) stores.emplace_back(pool);
  ThreadPool threads(options.threads);
  model::Workspace workspace(decoder.config(), {.rows = 256, .sequences = 16, .hidden_rows = 256},
                             threads);
  const std::vector<std::span<const Token>> texts(tokens.begin(), tokens.end());
  const auto vectors =
      model::embed(decoder, std::span(stores), workspace,
                   std::span<const std::span<const Token>>(texts), options.embedding);
  if (!options.vectors) return print_likeness(vectors);
  for (const auto& vector : vectors) {
    for (const float element : vector) std::cout << element << ' ';
    std::cout << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command("embed", "Texts as vectors, and the cosines between them.");
  declare(command, options);
  return command.run(argc, argv, [&] { embed(options); });
}
