// bench/model/cached_vs_recomputed_bench.cpp - from which length on is a cached token faster?
//
//   build/release/bench/bench_model_cached_vs_recomputed
//
// Time of the token at position length - 1 of a small model (4 layers of 256): cached, one row
// over what the store holds; recomputed, all rows into an empty store. Both give the same logits,
// bit for bit, and those of the reference. The cached one also shows its speed-up.
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "reference/decoder.hpp"
#include "reference/model.hpp"
#include "reference/to_weights.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/race.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Store = kv::Contiguous<codec::F32>;

constexpr Index kReferenceTokens = 40;
constexpr double kToken = 1e9;  // rates are counted in 10^9

model::Config small_config() {
  model::Config config;
  config.vocabulary = 2048;
  config.layers = 4;
  config.hidden_size = 256;
  config.heads = 8;
  config.kv_heads = 4;
  config.key_dim = 32;
  config.value_dim = 32;
  config.intermediate_size = 768;
  config.max_positions = 4096;
  return config;
}

std::vector<Token> tokens_of(Index count) {
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>(i * 997 % small_config().vocabulary));
  }
  return tokens;
}

// The token at the end of `tokens`, from the tokens before it or from their keys and values.
class Last {
 public:
  Last(const model::Decoder& decoder, std::span<const Token> tokens)
      : decoder_(decoder),
        tokens_(tokens),
        store_(decoder.config().geometry(), std::ssize(tokens)),
        workspace_(decoder.config(), {.rows = std::ssize(tokens)}) {}

  std::span<const float> recomputed() {
    store_.rewind(0);
    return feed(tokens_);
  }
  // Precondition: recomputed() has filled the store.
  std::span<const float> cached() {
    store_.rewind(std::ssize(tokens_) - 1);
    return feed(tokens_.last(1));
  }

  void check() {
    const std::span<const float> first = recomputed();
    const std::vector<float> expected(first.begin(), first.end());
    bench::require(std::memcmp(cached().data(), expected.data(), first.size_bytes()) == 0,
                   "cached and recomputed logits differ");
  }

 private:
  std::span<const float> feed(std::span<const Token> tokens) {
    batch_.clear();
    batch_.add(store_, tokens);
    decoder_.step(batch_, workspace_);
    return workspace_.logits(0);
  }

  const model::Decoder& decoder_;
  std::span<const Token> tokens_;
  Store store_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

model::Decoder checked_model() {
  reference::Model reference = reference::random_model(small_config(), 2, {.tied = true});
  model::Decoder decoder(small_config(), reference::to_weights(reference));
  const std::vector<Token> tokens = tokens_of(kReferenceTokens);
  const reference::Matrix expected = reference::Decoder(std::move(reference)).logits(tokens);
  bench::require_near(Last(decoder, tokens).recomputed(), expected.row(kReferenceTokens - 1), 1e-4,
                      "a prompt's logits");
  return decoder;
}

const model::Decoder& small_decoder() { return bench::cached(0, checked_model); }

void cached(benchmark::State& state) {
  const std::vector<Token> tokens = tokens_of(state.range(0));
  Last last(small_decoder(), tokens);
  last.check();
  bench::race(state,
              {.unit = "tokens/s",
               .amount = kToken,
               .threads = 1,
               .rivals = {{"recomputed", kToken, [&] { last.recomputed(); }}}},
              [&] { last.cached(); });
}
BENCHMARK(cached)->ArgName("length")->RangeMultiplier(4)->Range(1, 4096)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

void recomputed(benchmark::State& state) {
  const std::vector<Token> tokens = tokens_of(state.range(0));
  Last last(small_decoder(), tokens);
  last.check();
  bench::race(state, {.unit = "tokens/s", .amount = kToken, .threads = 1, .rivals = {}},
              [&] { last.recomputed(); });
}
BENCHMARK(recomputed)
    ->ArgName("length")
    ->RangeMultiplier(4)
    ->Range(1, 4096)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
