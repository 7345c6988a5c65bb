// bench/model/adapter_bench.cpp - what adapters add to a step of a model of 135 million parameters.
//
//   build/release/bench/bench_model_adapter
//
// decode: one token of each of eight sequences, every one with an adapter of its own of rank 16, on
// all projections or on queries and values alone; tokens/s beside the same step without adapters
// (without), and how many times as long it takes (times). prefill: the same for a prompt of 512
// tokens with one adapter. Adapters are stored as the weights are.
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "peers/random_model.hpp"
#include "reference/adapter.hpp"
#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/race.hpp"
#include "support/shapes.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace {

using namespace decant;

constexpr Index kRank = 16;
constexpr std::size_t kSequences = 8;
constexpr Index kPrompt = 512;
enum Projections { kAll, kQueriesAndValues };

template <codec::Codec C>
const model::Decoder& random_decoder() {
  return *bench::cached(0, [] {
    const model::Config config = bench::config_135m();
    return std::make_unique<model::Decoder>(config, bench::random_weights(config, C::kType));
  });
}

// Adapters of equal rank in every layer.
template <codec::Codec C>
const std::vector<model::Adapter>& random_adapters(const model::Config& config, Index projections) {
  return bench::cached(projections, [&] {
    std::vector<model::Projection> changed = reference::all_projections(config);
    if (projections == kQueriesAndValues) {
      changed = {model::Projection::query, model::Projection::value};
    }
    std::vector<model::Adapter> adapters;
    for (std::size_t seed = 1; seed <= kSequences; ++seed) {
      auto changes = reference::random_changes(config, seed, kRank, changed, 1);
      adapters.push_back(reference::to_adapter(config, changes, C::kType));
    }
    return adapters;
  });
}

// Sequences that hold a token each, or none, and take a step again and again.
template <codec::Codec C>
class Sequences {
 public:
  using Store = kv::Contiguous<C>;

  Sequences(const model::Decoder& decoder, std::size_t count, Index rows, Executor& executor)
      : decoder_(decoder),
        workspace_(decoder.config(),
                   {.rows = static_cast<Index>(count) * rows,
                    .logit_rows = static_cast<Index>(count),
                    .sequences = static_cast<Index>(count)},
                   executor) {
    for (std::size_t at = 0; at < count; ++at)
      stores_.emplace_back(decoder.config().geometry(), rows);
    for (Index at = 0; at < rows; ++at) tokens_.push_back(static_cast<Token>(at * 7919 % 49152));
  }

  // One step of the sequences [first, first + count).
  void step(const std::vector<model::Adapter>* adapters, std::size_t first, std::size_t count) {
    batch_.clear();
    for (std::size_t at = first; at < first + count; ++at) {
      stores_[at].rewind(0);
      batch_.add(stores_[at], tokens_, model::Logits::last,
                 adapters == nullptr ? nullptr : &(*adapters)[at]);
    }
    decoder_.step(batch_, workspace_);
  }
  void step(const std::vector<model::Adapter>* adapters) { step(adapters, 0, stores_.size()); }

  // Each sequence must get the bits that it gets alone, and no two the same ones.
  void check(const std::vector<model::Adapter>& adapters) {
    step(&adapters);
    std::vector<std::vector<float>> together;
    for (std::size_t at = 0; at < stores_.size(); ++at) {
      const auto logits = workspace_.logits(static_cast<Index>(at));
      together.emplace_back(logits.begin(), logits.end());
    }
    for (std::size_t at = 0; at < stores_.size(); ++at) {
      step(&adapters, at, 1);
      bench::require(std::ranges::equal(workspace_.logits(0), together[at]),
                     "a batch changed bits");
      bench::require(at == 0 || together[at] != together[0], "adapters changed nothing");
    }
  }

 private:
  const model::Decoder& decoder_;
  model::Workspace workspace_;
  std::vector<Store> stores_;
  std::vector<Token> tokens_;
  model::Batch<Store> batch_;
};

template <codec::Codec C>
void run(benchmark::State& state, std::size_t count, Index rows) {
  const model::Decoder& decoder = random_decoder<C>();
  const auto& adapters = random_adapters<C>(decoder.config(), state.range(0));
  state.SetLabel(state.range(0) == kAll ? "all projections" : "queries and values");
  Executor& executor = bench::workers(state.range(1));
  Sequences<C> sequences(decoder, count, rows, executor);
  sequences.check(adapters);
  const double tokens = 1e9 * static_cast<double>(count) * static_cast<double>(rows);
  bench::race(state,
              {.unit = "tokens/s",
               .amount = tokens,
               .threads = executor.threads(),
               .rivals = {{"without", tokens, [&] { sequences.step(nullptr); }}}},
              [&] { sequences.step(&adapters); });
  state.counters["times"] = 1 / state.counters["of_without"];
}

template <codec::Codec C>
void decode(benchmark::State& state) {
  run<C>(state, kSequences, 1);
}
template <codec::Codec C>
void prefill(benchmark::State& state) {
  run<C>(state, 1, kPrompt);
}

void cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  list->ArgsProduct({{kAll, kQueriesAndValues}, {1, 2}});
}
BENCHMARK(decode<codec::F32>)->Apply(cases);
BENCHMARK(decode<codec::BF16>)->Apply(cases);
BENCHMARK(prefill<codec::F32>)->Apply(cases);

}  // namespace
