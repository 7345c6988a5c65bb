// cached_vs_recomputed: what a cache saves, and that it changes no bit.
//
// You learn that decoding without a cache is the same call on a store that is emptied before each
// step, and that both give the same bits: the logits are compared while the times are taken.
#include <decant/decoding/generate.hpp>

#include <decant/codec/scaled.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/decoder.hpp>

#include "support/command_line.hpp"
#include "support/model.hpp"
#include "support/options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

constexpr Index kAnswerTokens = 5;
constexpr int kRuns = 5;  // of which the fastest counts

struct Options {
  std::string model = examples::default_model_folder();
  std::string lengths;
  codec::Type cache_type = codec::Type::f32;
  Index threads = examples::default_threads();
  bool csv = false;
};

void declare(examples::CommandLine& command, Options& options) {
  examples::add_model(command, options.model, "a checkpoint (the embedded one)");
  command.add_text("--lengths", options.lengths, "of the prompts, as in \"1 10 100\" (1 to 256)");
  examples::add_type(command, "--cache-type", options.cache_type, "format of the cache (f32)");
  examples::add_threads(command, options.threads);
  command.add_flag("--csv", options.csv, "comma-separated values in place of the table");
}

// The lengths asked for, or powers of two that fit the model; in ascending order.
std::vector<Index> lengths_of(const Options& options, Index positions) {
  const Index most = positions - kAnswerTokens;
  expects<std::runtime_error>(most >= 1, "an answer of ", kAnswerTokens,
                              " tokens does not fit into the model's ", positions, " positions");
  std::vector<Index> lengths;
  if (options.lengths.empty()) {
    for (Index n = 1; n <= std::min<Index>(most, 256); n *= 2) lengths.push_back(n);
    return lengths;
  }
  lengths = examples::integers("--lengths", options.lengths, 1);
  std::ranges::sort(lengths);
  expects<examples::UsageError>(lengths.back() <= most, "--lengths: ", lengths.back(),
                                " tokens and an answer of ", kAnswerTokens,
                                " do not fit into the model's ", positions, " positions");
  return lengths;
}

struct Answer {
  std::vector<Token> tokens;
  std::vector<float> logits;  // [tokens][vocabulary]
  double seconds = 0;         // of a token after the first

  bool same_bits(const Answer& other) const {
    return tokens == other.tokens && logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
  }
};

struct Row {
  Index length;
  double cached, recomputed;  // seconds of a token
};

// A decoder with the memory that its answers take.
template <codec::Codec C>
class Bench {
 public:
  Bench(const model::Decoder& decoder, Index tokens, Executor& threads)
      : decoder_(decoder),
        store_(decoder.config().geometry(), tokens),
        workspace_(decoder.config(), {.rows = std::min<Index>(tokens, 512)}, threads) {}

  Answer answer(std::span<const Token> prompt, const decoding::GenerateOptions& options) {
    Answer answer;
    const auto record = [&](Token) {
      const auto row = workspace_.logits(0);
      answer.logits.insert(answer.logits.end(), row.begin(), row.end());
      return true;
    };
    store_.rewind(0);
    auto generation = generate(decoder_, store_, workspace_, prompt, options, record);
    answer.tokens = std::move(generation.tokens);
    answer.seconds = generation.statistics.time_per_output_token();
    return answer;
  }

  // Answers with and without the cache, alternately.
  Row compare(std::span<const Token> prompt) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    Row row = {std::ssize(prompt), kNever, kNever};
    decoding::GenerateOptions options = {.max_new_tokens = kAnswerTokens,
                                         .stop = {.ignore_end_tokens = true}};
    for (int run = 0; run < kRuns; ++run) {
      options.recompute = false;
      const Answer cached = answer(prompt, options);
      options.recompute = true;
      const Answer recomputed = answer(prompt, options);
      expects<std::runtime_error>(cached.same_bits(recomputed), "the answers to a prompt of ",
                                  prompt.size(), " tokens differ");
      row.cached = std::min(row.cached, cached.seconds);
      row.recomputed = std::min(row.recomputed, recomputed.seconds);
    }
    return row;
  }

 private:
  const model::Decoder& decoder_;
  kv::Contiguous<C> store_;
  model::Workspace workspace_;
};

// Prompts are the beginnings of one text, which the model writes itself.
template <codec::Codec C>
std::vector<Row> measure(const Options& options, const model::Decoder& decoder, Token begin,
                         const std::vector<Index>& lengths) {
  ThreadPool threads(options.threads);
  Bench<C> bench(decoder, lengths.back() + kAnswerTokens, threads);
  const auto written = bench.answer(std::span(&begin, 1), {.max_new_tokens = lengths.back(),
                                                           .stop = {.ignore_end_tokens = true},
                                                           .sampler = {.temperature = 0.8}});
  std::vector<Row> rows;
  for (Index length : lengths) {
    rows.push_back(
        bench.compare(std::span(written.tokens).first(static_cast<std::size_t>(length))));
  }
  return rows;
}

void print(const std::vector<Row>& rows, bool csv) {
  const int columns = csv ? 0 : 18;
  const char* comma = csv ? "," : "";
  std::cout << std::fixed << std::setw(columns) << (csv ? "prompt_tokens" : "prompt tokens")
            << comma << std::setw(columns) << (csv ? "cached_us" : "cached, us") << comma
            << std::setw(columns) << (csv ? "recomputed_us" : "recomputed, us") << comma
            << std::setw(columns) << "ratio" << '\n';
  for (const Row& row : rows) {
    std::cout << std::setw(columns) << row.length << comma << std::setprecision(1)
              << std::setw(columns) << row.cached * 1e6 << comma << std::setw(columns)
              << row.recomputed * 1e6 << comma << std::setprecision(2) << std::setw(columns)
              << row.recomputed / row.cached << '\n';
  }
}

// The shortest prompt from which on the cache was always faster.
void conclude(const std::vector<Row>& rows) {
  const auto slower = [](const Row& row) { return row.cached >= row.recomputed; };
  const auto last = std::find_if(rows.rbegin(), rows.rend(), slower);
  std::cout << "\nEvery logit was the same, bit for bit. ";
  if (last == rows.rbegin()) {
    std::cout << "The cache did not pay at these lengths.\n";
  } else {
    std::cout << "The cache pays from a prompt of "
              << examples::counted(std::prev(last)->length, "token") << " on.\n";
  }
}

void cached_vs_recomputed(const Options& options) {
  checkpoints::Checkpoint checkpoint = examples::load(options.model);
  const Token begin = checkpoint.begin_token.value_or(0);
  const model::Decoder decoder(std::move(checkpoint.config), std::move(checkpoint.weights));
  const auto lengths = lengths_of(options, decoder.config().max_positions);
  const auto rows = codec::visit_cache(
      options.cache_type, [&]<class C>(C) { return measure<C>(options, decoder, begin, lengths); });
  print(rows, options.csv);
  if (!options.csv) conclude(rows);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine command(
      "cached_vs_recomputed",
      "Compares decoding with a cache and without, in time and bit for bit.");
  declare(command, options);
  return command.run(argc, argv, [&] { cached_vs_recomputed(options); });
}
