// bench/kv/prefix_bench.cpp - what the prefix cache costs and saves, and the size of a ring over
// time.
//
// lookup: finding the 8,192 tokens of a prompt among those of 10,000 sequences. first_token: the
// time to the first token of a prompt of 2,000 tokens whose beginning is cached, beside computing
// all of it (times). ring: bytes of a window of 4,096 tokens after ever longer texts.
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "peers/random_model.hpp"
#include "support/check.hpp"
#include "support/shapes.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::Int8;

std::vector<Token> tokens_from(Index first, Index count) {
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i)
    tokens.push_back(static_cast<Token>((first + i) * 7919 % 32000));
  return tokens;
}

// A hundred conversations of 7,168 tokens, each with a hundred ends of 1,024.
void lookup(benchmark::State& state) {
  constexpr Index kCommon = 7168, kEnd = 1024, kPage = 64;
  const kv::Geometry tiny = {1, 1, 1, 1};
  kv::PagePool<Int8> pool(tiny, 100 * (kCommon + 100 * kEnd) / kPage + kEnd, kPage);
  kv::PrefixTree<Int8> tree(pool);
  std::vector<Token> prompt;
  for (Index chat = 0; chat < 100; ++chat) {
    kv::Paged<Int8> common(pool);
    common.reserve(kCommon);
    common.publish(kCommon);
    const std::vector<Token> beginning = tokens_from(chat * 1'000'003, kCommon);
    for (Index end = 0; end < 100; ++end) {
      prompt = beginning;
      const std::vector<Token> rest = tokens_from(1 + chat * 100 + end, kEnd);
      prompt.insert(prompt.end(), rest.begin(), rest.end());
      kv::Paged<Int8> sequence = common.fork();
      sequence.reserve(kEnd);
      sequence.publish(kEnd);
      tree.insert({}, prompt, sequence);
    }
  }
  for (auto _ : state) {
    kv::Paged<Int8> found = tree.match({}, prompt);
    bench::require(found.end() == kCommon + kEnd - 1, "another prefix was found");
  }
  state.counters["pages"] = static_cast<double>(tree.pages());
}
BENCHMARK(lookup)->Unit(benchmark::kMicrosecond);

void first_token(benchmark::State& state) {
  const model::Config config = bench::config_135m();
  const model::Decoder decoder(config, bench::random_weights(config, codec::Type::bf16));
  kv::PagePool<BF16> pool(config.geometry(), 80, 64);
  kv::PrefixTree<BF16> tree(pool);
  model::Workspace workspace(config, {.rows = 512});
  const std::vector<Token> prompt = tokens_from(5, 2000);
  const auto seconds = [&](kv::Paged<BF16>& store) {
    const auto options =
        decoding::GenerateOptions{.max_new_tokens = 1, .cached_tokens = store.end()};
    return generate(decoder, store, workspace, prompt, options).statistics.time_to_first_token;
  };
  kv::Paged<BF16> first(pool);
  const double computed = seconds(first);
  tree.insert({}, prompt, first);
  double best = computed;
  for (auto _ : state) {
    kv::Paged<BF16> found = tree.match({}, prompt);
    const double reused = seconds(found);
    best = std::min(best, reused);
    state.SetIterationTime(reused);
  }
  state.counters["computed_ms"] = computed * 1e3;
  state.counters["times"] = computed / best;
}
BENCHMARK(first_token)->UseManualTime()->Iterations(10)->Unit(benchmark::kMillisecond);

// Rows without attention: what a ring allocates and how long a row takes to store.
void ring(benchmark::State& state) {
  const kv::Geometry geometry = {16, 8, 64, 64};
  kv::Ring<BF16> store(geometry, 4096, 1);
  const std::vector<float> row(64, 0.5f);
  const Index begun = store.bytes();
  for (auto _ : state) {
    store.rewind(0);
    for (Index token = 0; token < state.range(0); ++token) {
      store.reserve(1);
      for (Index layer = 0; layer < geometry.layers; ++layer) {
        for (Index head = 0; head < geometry.heads; ++head) {
          store.put(layer, head, store.end(), row, row);
        }
      }
      store.publish(1);
    }
  }
  bench::require(store.bytes() == begun, "a ring has grown");
  state.counters["bytes"] = static_cast<double>(store.bytes());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ring)->ArgName("tokens")->Arg(1000)->Arg(10'000)->Arg(100'000)->Iterations(1)->Unit(
    benchmark::kMillisecond);

}  // namespace
