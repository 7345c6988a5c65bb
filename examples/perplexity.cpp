// perplexity: how well a model predicts a text, and what smaller formats cost.
//
// You learn how to take the logits of many tokens in one step, and that a format is chosen when
// weights are loaded and when a store is made: the code between does not change.
#include <decant/model/decoder.hpp>

#include <decant/codec/scaled.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using kernels::Activations;

struct Options {
  std::string model = examples::default_model_folder();
  std::string text;
  Index window = 256;
  Index threads = examples::default_threads();
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_nonempty_text("--text", options.text, "UTF-8 (a speech of Hamlet's)", "FILE");
  examples::add_number(command, "--window", options.window,
                       "tokens of a window, each read on its own (256)", 2, 1 << 20);
  examples::add_threads(command, options.threads);
}

// The formats compared; the first is the reference of the others.
struct Format {
  std::optional<codec::Type> weights;
  Activations activations = Activations::full;
  examples::Formats cache = {};
};

constexpr Format kFormats[] = {
    {.weights = std::nullopt},
    {.weights = std::nullopt, .cache = {codec::Type::bf16, codec::Type::bf16}},
    {.weights = std::nullopt, .cache = {codec::Type::f16, codec::Type::f16}},
    {.weights = std::nullopt, .cache = {codec::Type::fp8_e4m3, codec::Type::fp8_e4m3}},
    {.weights = std::nullopt, .cache = {codec::Type::fp8_e5m2, codec::Type::fp8_e5m2}},
    {.weights = std::nullopt, .cache = {codec::Type::int8, codec::Type::int8}},
    {.weights = std::nullopt, .cache = {codec::Type::int4, codec::Type::int4}},
    {.weights = std::nullopt, .cache = {codec::Type::int8, codec::Type::int4}},
    {.weights = std::nullopt, .cache = {codec::Type::f16, codec::Type::int4}},
    {.weights = codec::Type::bf16},
    {.weights = codec::Type::bf16, .activations = Activations::quantised},
    {.weights = codec::Type::f16},
    {.weights = codec::Type::q8_0},
    {.weights = codec::Type::q8_0, .activations = Activations::quantised},
    {.weights = codec::Type::q4_0},
    {.weights = codec::Type::q4_0, .activations = Activations::quantised},
};

std::vector<Token> tokens_of(const Options& options, const model::Config& config) {
  const text::Tokenizer tokenizer = examples::load_tokenizer(options.model);
  const files::MappedFile file(
      options.text.empty() ? examples::default_model_folder() + "/hamlet.txt" : options.text);
  std::vector<Token> tokens =
      examples::encode(tokenizer, file.text(), "--text", config, options.model);
  expects<examples::UsageError>(tokens.size() >= 2, "--text: has ",
                                examples::counted(std::ssize(tokens), "token"), ", of at least 2");
  return tokens;
}

// [tokens][vocabulary], window by window.
template <kv::Store S>
std::vector<float> logits_of(const model::Decoder& decoder, std::span<const Token> tokens,
                             Index window, Executor& threads, S& store) {
  model::Workspace workspace(decoder.config(), {.rows = window, .logit_rows = window}, threads);
  model::Batch<S> batch;
  std::vector<float> logits;
  for (std::size_t first = 0; first < tokens.size(); first += static_cast<std::size_t>(window)) {
    const auto part = tokens.subspan(
        first, std::min<std::size_t>(static_cast<std::size_t>(window), tokens.size() - first));
    store.rewind(0);
    batch.clear();
    batch.add(store, part, model::Logits::all);
    decoder.step(batch, workspace);
    for (Index row = 0; row < std::ssize(part); ++row) {
      const auto of_row = workspace.logits(row);
      logits.insert(logits.end(), of_row.begin(), of_row.end());
    }
  }
  return logits;
}

// -ln of the probability that the model gave `token`, in nats.
double negative_log_likelihood(std::span<const float> logits, Token token) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[static_cast<std::size_t>(token)];
}

// exp of the mean negative log-likelihood of all tokens but the first of each window.
double perplexity(std::span<const float> logits, std::span<const Token> tokens, Index window) {
  const std::size_t vocabulary = logits.size() / tokens.size();
  double sum = 0;
  Index count = 0;
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    if (at % static_cast<std::size_t>(window) == 0) continue;
    sum += negative_log_likelihood(logits.subspan((at - 1) * vocabulary, vocabulary), tokens[at]);
    count += 1;
  }
  return std::exp(sum / static_cast<double>(count));
}

// NaN if a logit is NaN.
double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double difference = std::abs(double{a[n]} - double{b[n]});
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

void print_head(Index tokens, Index window) {
  std::cout << examples::counted(tokens, "token") << " in windows of " << window
            << "\n\nweights    activations  cache     weight bytes  bytes a token   perplexity"
            << "  largest logit error\n";
}

void print_row(const Format& format, const model::Decoder& decoder, Index token_bytes,
               double perplexity, double difference) {
  const std::string weights = format.weights ? std::string(name(*format.weights)) : "as stored";
  const bool quantised = format.activations == Activations::quantised;
  std::cout << std::left << std::setw(11) << weights << std::setw(13)
            << (quantised ? "quantised" : "full") << std::setw(10) << examples::name(format.cache)
            << std::right << std::setw(12)
            << examples::grouped(model::matrix_bytes(decoder.weights())) << std::setw(15)
            << examples::grouped(token_bytes) << std::fixed << std::setprecision(3) << std::setw(13)
            << perplexity << std::setprecision(4) << std::setw(21) << difference << std::endl;
}

void compare(const Options& options) {
  const model::Config config = examples::read_config(options.model);
  examples::check_length("--window", options.window, config);
  const std::vector<Token> tokens = tokens_of(options, config);
  ThreadPool threads(options.threads);
  std::vector<float> reference;
  std::optional<model::Decoder> decoder;
  for (const Format& format : kFormats) {
    if (!decoder || format.weights) {  // the formats of caches come first, and share one model
      decoder.reset();                 // before the next takes its memory
      checkpoints::Checkpoint checkpoint = examples::load(
          options.model, {.weights = format.weights, .activations = format.activations});
      decoder.emplace(std::move(checkpoint.config), std::move(checkpoint.weights));
    }
    Index token_bytes = 0;
    const std::vector<float> logits = examples::with_store(
        {.formats = format.cache}, decoder->config(), options.window, options.window,
        [&]<kv::Store S>(S& store) {
          token_bytes =
              store.geometry().template payload_bytes<typename S::Keys, typename S::Values>(1);
          return logits_of(*decoder, tokens, options.window, threads, store);
        });
    const double value = perplexity(logits, tokens, options.window);
    expects<FormatError>(std::isfinite(value), options.model, ": gives logits of NaN");
    if (reference.empty()) {
      reference = logits;
      print_head(std::ssize(tokens), options.window);
    }
    print_row(format, *decoder, token_bytes, value, largest_difference(logits, reference));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command(
      "perplexity", "Measures how well a model predicts a text, by format of weights and cache.");
  declare(command, options);
  return command.run(argc, argv, [&] { compare(options); });
}
