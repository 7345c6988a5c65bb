// bench/model/step_bench.cpp - how fast is a whole step of a model of 135 million parameters?
//
//   build/release/bench/bench_model_step
//       --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//
// prefill: a prompt of 512 tokens into an empty store; tokens/s, and GFLOP/s beside a loop of
// multiply-adds (of_peak). decode: one token after `context` others; tokens/s, and GB/s of weights,
// keys and values beside a plain read of other memory (of_read, of_read8). Keys and values are
// stored as the weights are. overhead: a decoded token of a model whose kernels have next to
// nothing to do, by number of layers: the fixed cost of a step.
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "reference/decoder.hpp"
#include "reference/model.hpp"
#include "reference/to_weights.hpp"
#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/cost.hpp"
#include "support/race.hpp"
#include "support/random.hpp"
#include "support/shapes.hpp"

#include <benchmark/benchmark.h>

#include <span>
#include <utility>
#include <vector>

namespace {

using namespace decant;

constexpr Index kPrompt = 512;

std::vector<Token> tokens_of(const model::Config& config, Index count) {
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>(i * 7919 % config.vocabulary));
  }
  return tokens;
}

// One sequence of a random model, and what it runs in.
template <codec::Codec C>
class Session {
 public:
  using Store = kv::Contiguous<C>;

  Session(const model::Decoder& decoder, Index capacity, Executor& executor)
      : decoder_(decoder),
        store_(decoder.config().geometry(), capacity),
        workspace_(decoder.config(), {.rows = kPrompt, .logit_rows = 1, .sequences = 1}, executor) {
  }

  Store& store() { return store_; }

  // The logits after the last of `tokens`.
  std::span<const float> feed(std::span<const Token> tokens) {
    batch_.clear();
    batch_.add(store_, tokens);
    decoder_.step(batch_, workspace_);
    return workspace_.logits(0);
  }

 private:
  const model::Decoder& decoder_;
  Store store_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

// A tied random model, checked against the reference's logits: once from both tokens and once from
// the cache.
template <codec::Codec C>
model::Decoder checked_model() {
  const model::Config config = bench::config_135m();
  reference::Model reference = reference::random_model(config, 1, {.tied = true});
  model::Decoder decoder(config, reference::to_weights(reference, C::kType));
  const std::vector<Token> tokens = tokens_of(config, 2);
  const reference::Matrix expected = reference::Decoder(std::move(reference)).logits(tokens);
  const double tolerance = C::kType == codec::Type::f32 ? 1e-4 : 2e-2;  // of keys and values
  Session<C> session(decoder, 2, serial_executor());
  bench::require_near(session.feed(tokens), expected.row(1), tolerance, "a prompt's logits");
  session.store().rewind(1);
  bench::require_near(session.feed({&tokens[1], 1}), expected.row(1), tolerance,
                      "a decoded token's logits");
  return decoder;
}

template <codec::Codec C>
const model::Decoder& random_decoder() {
  return bench::cached(0, [] { return checked_model<C>(); });
}

template <codec::Codec C>
void prefill(benchmark::State& state) {
  const model::Decoder& decoder = random_decoder<C>();
  Executor& executor = bench::workers(state.range(0));
  Session<C> session(decoder, kPrompt, executor);
  const std::vector<Token> prompt = tokens_of(decoder.config(), kPrompt);
  const auto step = [&] {
    session.store().rewind(0);
    session.feed(prompt);
  };
  const double seconds = bench::race(state,
                                     {.unit = "GFLOP/s",
                                      .amount = bench::cost_of<C>(decoder).prefill(kPrompt).flops,
                                      .threads = executor.threads(),
                                      .rivals = {bench::peak(executor)}},
                                     step);
  state.counters["tokens/s"] = static_cast<double>(kPrompt) / seconds;
}
BENCHMARK(prefill<codec::F32>)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime();
BENCHMARK(prefill<codec::BF16>)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime();

template <codec::Codec C>
void decode(benchmark::State& state) {
  constexpr Index kPlain = 256 << 20;
  const model::Decoder& decoder = random_decoder<C>();
  const Index context = state.range(0);
  Executor& executor = bench::workers(state.range(1));
  Session<C> session(decoder, context + 1, executor);
  const std::vector<Token> tokens = tokens_of(decoder.config(), context + 1);
  for (Index at = 0; at < context; at += kPrompt) {
    session.feed(std::span(tokens).subspan(static_cast<std::size_t>(at), kPrompt));
  }
  const auto step = [&] {
    session.store().rewind(context);
    session.feed({&tokens.back(), 1});
  };
  const std::vector<float>& plain =
      bench::cached(0, [] { return bench::values(kPlain / Index{sizeof(float)}, 0); });
  const auto memory = [&] { return static_cast<const void*>(plain.data()); };
  const double seconds = bench::race(state,
                                     {.unit = "GB/s",
                                      .amount = bench::cost_of<C>(decoder).decode(1, context).bytes,
                                      .threads = executor.threads(),
                                      .rivals = bench::reads(memory, kPlain, executor)},
                                     step);
  state.counters["tokens/s"] = 1 / seconds;
}

void decode_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"context", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  for (Index context : {0, 2048}) {
    for (Index threads : {1, 2}) list->Args({context, threads});
  }
}
BENCHMARK(decode<codec::F32>)->Apply(decode_cases);
BENCHMARK(decode<codec::BF16>)->Apply(decode_cases);

void overhead(benchmark::State& state) {
  model::Config config;
  config.vocabulary = config.hidden_size = config.intermediate_size = 16;
  config.layers = state.range(0);
  config.heads = config.kv_heads = 1;
  config.key_dim = config.value_dim = 16;
  config.max_positions = 64;
  const model::Decoder decoder(
      config, reference::to_weights(reference::random_model(config, 1), codec::Type::f32));
  Session<codec::F32> session(decoder, 64, bench::workers(state.range(1)));
  const Token token = 3;
  for (auto _ : state) {
    session.store().rewind(0);
    session.feed({&token, 1});
  }
}
BENCHMARK(overhead)
    ->ArgNames({"layers", "threads"})
    ->ArgsProduct({{1, 5, 30}, {1, 2}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
