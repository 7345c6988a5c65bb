// tests/law/checksum.cpp - prints a checksum of logits and tokens over the configurations of the
// law's tests, a line each.
//
// The lines before and after a change that changes no bit are the same, on one machine and with one
// compiler. Sums of generations are of tokens and of the log-probabilities of all tokens.
#include "law/models.hpp"
#include "law/sharing.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

// FNV-1a over 64-bit words.
class Checksum {
 public:
  void add(std::uint64_t word) { sum_ = (sum_ ^ word) * 1099511628211u; }
  void add(const trial::Rows& rows) {
    for (const auto& row : rows) {
      for (float logit : row) add(std::bit_cast<std::uint32_t>(logit));
    }
  }
  void add(std::span<const Token> tokens) {
    for (Token token : tokens) add(static_cast<std::uint64_t>(token));
    add(tokens.size());
  }
  void add(const decoding::Generation& generation) {
    add(generation.tokens);
    for (const auto& at : generation.log_probabilities) {
      for (const auto& one : at.top) add(std::bit_cast<std::uint64_t>(one.value));
    }
  }
  void print(const std::string& of) const {
    std::printf("%016llx  %s\n", static_cast<unsigned long long>(sum_), of.c_str());
  }

 private:
  std::uint64_t sum_ = 14695981039346656037u;
};

constexpr Index kTokens = 1100;  // longer than a segment

template <codec::Codec C>
void logits(const trial::Family& family, codec::Type weights, const std::string& cache) {
  const model::Decoder decoder = trial::decoder_of(family, weights);
  kv::Contiguous<C> store(family.config.geometry(), kTokens);
  Checksum sum;
  sum.add(trial::feed(decoder, store, trial::random_tokens(family.config, kTokens, 3), 97));
  sum.print("logits of " + family.name + ", weights " + std::string(name(weights)) + ", cache " +
            cache);
}

decoding::GenerateOptions options_of(const model::Config& config, double temperature) {
  decoding::GenerateOptions options;
  options.max_new_tokens = 60;
  options.log_probabilities = config.vocabulary;
  options.sampler.temperature = temperature;
  options.sampler.penalties.repetition = 1.1;
  options.sampler.seed = 7;
  options.sequence = 3;
  return options;
}

template <codec::Codec C>
void generations(const trial::Family& family, const std::string& cache) {
  const model::Decoder decoder = trial::decoder_of(family);
  model::Workspace workspace(family.config, {.rows = 40, .logit_rows = 20, .sequences = 6});
  const auto prompt = trial::random_tokens(family.config, 70, 4);
  const auto every = [](Token) { return true; };
  for (double temperature : {0.0, 0.9}) {
    const auto options = options_of(family.config, temperature);
    Checksum sum;
    kv::Contiguous<C> store(family.config.geometry(), 200);
    sum.add(generate(decoder, store, workspace, prompt, options));
    decoding::NgramDrafter drafter{.shortest = 1};
    kv::Contiguous<C> drafted(family.config.geometry(), 200);
    sum.add(generate(decoder, drafted, workspace, prompt, options, every, drafter));
    kv::PagePool<C> pool(family.config.geometry(), 60, 16);
    kv::Paged<C> paged(pool);
    decoding::TreeNgramDrafter branches;
    sum.add(generate(decoder, paged, workspace, prompt, options, every, branches));
    const auto each = [](Index, Token) { return true; };
    for (const auto& one : generate_samples(decoder, paged, workspace, prompt, options, 3, each)) {
      sum.add(one);
    }
    sum.print("generations of " + family.name + ", cache " + cache + ", temperature " +
              std::to_string(temperature));
  }
  kv::PagePool<C> pool(family.config.geometry(), 60, 16);
  kv::Paged<C> store(pool);
  Checksum sum;
  for (const auto& answer :
       decoding::beam_search(decoder, store, workspace, prompt, {.beams = 4, .answers = 4})) {
    sum.add(answer.tokens);
    sum.add(std::bit_cast<std::uint64_t>(answer.score));
  }
  sum.print("beams of " + family.name + ", cache " + cache);
}

template <codec::Codec C>
void requests(const trial::Family& family, const std::string& cache) {
  const model::Decoder decoder = trial::decoder_of(family);
  model::Workspace workspace(family.config, {.rows = 40, .logit_rows = 12, .sequences = 6});
  kv::PagePool<C> pool(family.config.geometry(), 20, 16);
  kv::PrefixTree<C> tree(pool, 8);
  decoding::Scheduler scheduler(decoder, workspace, pool, {}, &tree);
  for (unsigned n = 0; n < 12; ++n) {
    decoding::Request request = {.prompt = trial::random_tokens(family.config, 20 + 7 * n, n % 3),
                                 .options = options_of(family.config, 0.3 * (n % 4))};
    request.options.sequence = n;
    if (n % 2 == 0) request.drafter = decoding::drafts_of(decoding::NgramDrafter{.shortest = 1});
    scheduler.submit(std::move(request));
  }
  std::vector<decoding::Generation> ended(13);
  while (!scheduler.idle()) {
    for (decoding::Event& event : scheduler.step()) {
      if (event.outcome) ended[event.request] = std::move(event.outcome->generation);
    }
  }
  Checksum sum;
  for (const auto& generation : ended) sum.add(generation);
  sum.print("requests of " + family.name + ", cache " + cache);
}

template <codec::Codec C>
void all(const std::string& cache) {
  for (const trial::Family& family : {trial::llama(), trial::windowed(), trial::normed_heads(),
                                      trial::gpt2(), trial::streaming(), trial::wide_heads()}) {
    logits<C>(family, codec::Type::f32, cache);
    generations<C>(family, cache);
    requests<C>(family, cache);
  }
}

}  // namespace

int main() {
  all<codec::F32>("f32");
  all<codec::BF16>("bf16");
  all<codec::F16>("f16");
  all<codec::Int8>("int8");
  all<codec::Int4>("int4");
  all<codec::FP8E4M3>("fp8 e4m3");
  all<codec::FP8E5M2>("fp8 e5m2");
  for (codec::Type weights :
       {codec::Type::bf16, codec::Type::f16, codec::Type::q8_0, codec::Type::q4_0}) {
    logits<codec::F32>(trial::llama(), weights, "f32");
    logits<codec::BF16>(trial::gpt2(), weights, "bf16");
  }
}
