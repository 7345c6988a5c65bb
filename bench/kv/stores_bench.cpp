// bench/kv/stores_bench.cpp - what a kind of store costs: decoding from it, and its own operations.
//
// A decoded token's attention over each store and format races the same over a contiguous store in
// bf16; rates count keys, so that of_contiguous is how many times as many a second.
#include <decant/attention/attend.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>

#include "support/race.hpp"
#include "support/random.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;

constexpr Index kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr Index kMemory = 256 << 20;  // bytes: several times the processor's caches

Index layers_for(Index keys) {
  return ceil_div(kMemory, kv::Geometry{1, kKvHeads, kDim, kDim}.bytes<BF16>(keys));
}

kv::Geometry geometry_for(Index keys) { return {layers_for(keys), kKvHeads, kDim, kDim}; }

template <kv::Store S>
void fill(S& store, Index keys) {
  std::vector<float> row(2 * kDim);
  const auto both = std::span<const float>(row);
  store.reserve(keys);
  for (Index head = 0; head < kKvHeads; ++head) {
    for (Index token = 0; token < keys; ++token) {
      bench::fill(row, (token * kKvHeads + head) * 2 * kDim);
      for (Index layer = 0; layer < store.geometry().layers; ++layer) {
        store.put(layer, head, store.end() + token, both.first(kDim), both.last(kDim));
      }
    }
  }
  store.publish(keys);
}

// One row that attends to all that a store holds, layer after layer.
template <kv::Store S>
class Row {
 public:
  Row(const S& store, Executor& executor)
      : store_(store),
        executor_(executor),
        query_(bench::values(kHeads * kDim, Index{1} << 40)),
        out_(query_.size()),
        scratch_(store.geometry(), kHeads, executor.threads(), 1, store.end()) {}

  void attend() {
    const attention::Sequence<S> sequence = {.store = &store_,
                                             .first = store_.end() - 1,
                                             .rows = 1,
                                             .queries = query_.data(),
                                             .out = out_.data()};
    layer_ = (layer_ + 1) % store_.geometry().layers;
    attention::attend(std::span(&sequence, 1),
                      {.layer = layer_,
                       .heads = kHeads,
                       .scale = 1.0f / std::sqrt(float{kDim}),
                       .query_stride = kHeads * kDim,
                       .out_stride = kHeads * kDim},
                      attention::Causal{}, attention::Plain{}, scratch_, executor_);
  }

 private:
  const S& store_;
  Executor& executor_;
  std::vector<float> query_, out_;
  attention::Scratch scratch_;
  Index layer_ = 0;
};

template <kv::Store S>
void race_contiguous(benchmark::State& state, const S& store) {
  const Index keys = store.end();
  kv::Contiguous<BF16> rival(geometry_for(keys), keys);
  fill(rival, keys);
  Row<S> row(store, serial_executor());
  Row<kv::Contiguous<BF16>> other(rival, serial_executor());
  const auto amount = static_cast<double>(keys);
  bench::race(state,
              {.unit = "Gkeys/s",
               .amount = amount,
               .rivals = {{"contiguous", amount, [&] { other.attend(); }}}},
              [&] { row.attend(); });
}

template <codec::Codec C>
void decode_contiguous(benchmark::State& state) {
  kv::Contiguous<C> store(geometry_for(state.range(0)), state.range(0));
  fill(store, state.range(0));
  race_contiguous(state, store);
}
template <codec::Codec C>
void decode_paged(benchmark::State& state) {
  const Index keys = state.range(0);
  const Index page = state.range(1);
  kv::PagePool<C> pool(geometry_for(keys), ceil_div(keys, page), page);
  kv::Paged<C> store(pool);
  fill(store, keys);
  race_contiguous(state, store);
}

void contexts(benchmark::internal::Benchmark* list) {
  list->ArgName("keys")->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(60);
  for (Index keys : {4096, 16384}) list->Args({keys});
}
void pages(benchmark::internal::Benchmark* list) {
  list->ArgNames({"keys", "page"})->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(60);
  for (Index keys : {4096, 16384}) {
    for (Index page : {16, 64, 256}) list->Args({keys, page});
  }
}
BENCHMARK(decode_contiguous<codec::Int8>)->Apply(contexts);
BENCHMARK(decode_contiguous<codec::Int4>)->Apply(contexts);
BENCHMARK(decode_contiguous<codec::FP8E4M3>)->Apply(contexts);
BENCHMARK(decode_contiguous<codec::FP8E5M2>)->Apply(contexts);
BENCHMARK(decode_paged<BF16>)->Apply(pages);

// A fork of a sequence of a 1B model, with a part-filled last page, and its end.
void fork(benchmark::State& state) {
  const kv::Geometry geometry = {16, 8, 64, 64};
  const Index tokens = state.range(0);
  kv::PagePool<BF16> pool(geometry, ceil_div(tokens, 16) + 1, 16);
  kv::Paged<BF16> store(pool);
  store.reserve(tokens);
  store.publish(tokens);
  for (auto _ : state) {
    kv::Paged<BF16> reference = store.fork();
    benchmark::DoNotOptimize(reference);
  }
}
BENCHMARK(fork)->ArgName("tokens")->Arg(8191)->Unit(benchmark::kMicrosecond);

}  // namespace
