// bench/model/cost_bench.cpp - how well does model::Cost predict the time of a step?
//
//   build/release/bench/bench_model_cost
//
// model::Cost of a model of 135 million parameters, on the machine that the same run measures (a
// plain read of memory, the faster of one stream and eight, and f32 multiply-adds), beside the
// steps themselves: prefill of `tokens`, and decoding one token of each of `sequences` behind
// `context` ones. It predicts the least time: predicted/measured is at most about 1, and shows
// how near the step is to its bound. Keys and values are in bf16 with
// block-quantised weights, otherwise as the weights are. Products of q8_0 and q4_0 multiply int8,
// which is faster than f32: if arithmetic bounds them, the f32 bound does not apply.
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/cost.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "peers/random_model.hpp"
#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/cost.hpp"
#include "support/race.hpp"
#include "support/random.hpp"
#include "support/shapes.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

using namespace decant;
using codec::Type;

constexpr Index kRows = 512;

template <Type kType>
using Cell = std::conditional_t<kType == Type::f32, codec::F32, codec::BF16>;

template <Type kType>
const model::Decoder& random_decoder() {
  return bench::cached(0, [] {
    const model::Config config = bench::config_135m();
    return model::Decoder(config, bench::random_weights(config, kType));
  });
}

// Some sequences of a random model, each with `context` tokens, and room for `more`.
template <Type kType>
class Sequences {
 public:
  using Store = kv::Contiguous<Cell<kType>>;

  Sequences(Index count, Index context, Index more, Executor& executor)
      : decoder_(random_decoder<kType>()),
        context_(context),
        workspace_(decoder_.config(), {.rows = kRows, .logit_rows = count, .sequences = count},
                   executor) {
    for (Index i = 0; i < count; ++i) {
      stores_.emplace_back(decoder_.config().geometry(), context + more);
    }
    for (Index at = 0; at < context; at += kRows) {
      for (Store& store : stores_) {
        batch_.clear();
        batch_.add(store, tokens(std::min(kRows, context - at)), model::Logits::none);
        decoder_.step(batch_, workspace_);
      }
    }
  }

  // `rows` tokens of each behind its context.
  void step(Index rows) {
    batch_.clear();
    for (Store& store : stores_) {
      store.rewind(context_);
      batch_.add(store, tokens(rows));
    }
    decoder_.step(batch_, workspace_);
  }

  model::Cost cost() const { return bench::cost_of<Cell<kType>>(decoder_); }

 private:
  std::span<const Token> tokens(Index count) {
    while (std::ssize(tokens_) < count) {
      tokens_.push_back(static_cast<Token>(std::ssize(tokens_) * 7919 % 32'000));
    }
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }

  const model::Decoder& decoder_;
  Index context_;
  model::Workspace workspace_;
  std::vector<Store> stores_;
  std::vector<Token> tokens_;
  model::Batch<Store> batch_;
};

// Times `step` beside the bounds of the machine, and compares it with `work` at those bounds.
template <class F>
void compare(benchmark::State& state, const model::Work& work, Index tokens, Executor& executor,
             F&& step) {
  constexpr Index kPlain = 256 << 20;
  const std::vector<float>& plain =
      bench::cached(0, [] { return bench::values(kPlain / Index{sizeof(float)}, 0); });
  const auto memory = [&] { return static_cast<const void*>(plain.data()); };
  std::vector<bench::Rival> rivals = bench::reads(memory, kPlain, executor);
  rivals.push_back(bench::peak(executor));
  const double seconds = bench::race(
      state,
      {.unit = "GFLOP/s", .amount = work.flops, .threads = executor.threads(), .rivals = rivals},
      step);
  auto& counters = state.counters;
  const model::Machine machine = {
      .bytes_per_second = 1e9 * std::max(counters["read"].value, counters["read8"].value),
      .flops_per_second = 1e9 * counters["peak"].value};
  const double predicted = model::least_seconds(work, machine);
  for (const char* name : {"of_read", "of_read8", "of_peak"}) counters.erase(name);
  counters["predicted_ms"] = predicted * 1e3;
  counters["measured_ms"] = seconds * 1e3;
  counters["predicted/measured"] = predicted / seconds;
  counters["tokens/s"] = static_cast<double>(tokens) / seconds;
}

template <Type kType>
void prefill(benchmark::State& state) {
  const Index tokens = state.range(0);
  Executor& executor = bench::workers(state.range(1));
  Sequences<kType> sequences(1, 0, tokens, executor);
  compare(state, sequences.cost().prefill(tokens), tokens, executor,
          [&] { sequences.step(tokens); });
}
BENCHMARK(prefill<Type::f32>)
    ->ArgNames({"tokens", "threads"})
    ->ArgsProduct({{64, kRows}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(prefill<Type::bf16>)
    ->ArgNames({"tokens", "threads"})
    ->ArgsProduct({{64, kRows}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

template <Type kType>
void decode(benchmark::State& state) {
  const Index count = state.range(0), context = state.range(1);
  Executor& executor = bench::workers(state.range(2));
  const auto key = std::tuple(count, context, executor.threads());
  Sequences<kType>& sequences = *bench::cached(
      key, [&] { return std::make_unique<Sequences<kType>>(count, context, 1, executor); });
  compare(state, sequences.cost().decode(count, context), count, executor,
          [&] { sequences.step(1); });
}

void decode_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"sequences", "context", "threads"})
      ->ArgsProduct({{1, 8}, {0, 1024}, {1}})
      ->Args({1, 2048, 2})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(decode<Type::f32>)->Apply(decode_cases);
BENCHMARK(decode<Type::bf16>)->Apply(decode_cases);
BENCHMARK(decode<Type::q8_0>)->Apply(decode_cases);
BENCHMARK(decode<Type::q4_0>)->Apply(decode_cases);

}  // namespace
