// bench/attention/attend_bench.cpp - does attention run at the speed of its bound?
//
//   build/release/bench/bench_attention_attend --benchmark_filter=decode
//   build/release/bench/bench_attention_attend --benchmark_filter=prefill
//       --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//
// decode: one row over all keys held, layer after layer of a store larger than the processor's
// caches. GB/s of keys and values beside a plain read of as many bytes of the same store, in one
// stream and in eight (of_read, of_read8). prefill: 512 rows at the end of the keys. GFLOP/s,
// counting only the keys that each row sees under the causal mask, beside a loop of multiply-adds
// (of_peak).
#include <decant/attention/attend.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>

#include "reference/attention.hpp"
#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/race.hpp"
#include "support/random.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace decant;

constexpr Index kFirstQuery = Index{1} << 40;  // keys and values are values 0, 1, ...
constexpr Index kMemory = 256 << 20;           // bytes: several times the processor's caches

// Query heads, the key and value heads they share, and the elements of one head.
struct Heads {
  Index query, kv, dim;
  friend bool operator==(const Heads&, const Heads&) = default;
};

Heads heads_of(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2)};
}

// Every layer holds the same values: of token t and head h, a key and then a value.
template <codec::Codec C>
kv::Contiguous<C> random_store(const Heads& heads, Index keys, Index layers) {
  kv::Contiguous<C> store({layers, heads.kv, heads.dim, heads.dim}, keys);
  store.reserve(keys);
  std::vector<float> row(static_cast<std::size_t>(2 * heads.dim));
  const auto both = std::span<const float>(row);
  for (Index head = 0; head < heads.kv; ++head) {
    for (Index token = 0; token < keys; ++token) {
      bench::fill(row, (token * heads.kv + head) * 2 * heads.dim);
      const auto dim = static_cast<std::size_t>(heads.dim);
      for (Index layer = 0; layer < layers; ++layer) {
        store.put(layer, head, token, both.first(dim), both.last(dim));
      }
    }
  }
  store.publish(keys);
  return store;
}

// What the reference reads of one key head: part 0 is its keys, part 1 its values.
reference::Matrix rows_of(const Heads& heads, Index keys, Index head, Index part) {
  reference::Matrix result(keys, heads.dim);
  for (Index token = 0; token < keys; ++token) {
    const Index first = ((token * heads.kv + head) * 2 + part) * heads.dim;
    for (Index d = 0; d < heads.dim; ++d) {
      result.row(token)[static_cast<std::size_t>(d)] = double{bench::value(first + d)};
    }
  }
  return result;
}

float scale_of(const Heads& heads) { return 1.0f / std::sqrt(static_cast<float>(heads.dim)); }

// Outputs of three rows, or of the only one, by the reference.
using Expected = std::map<Index, reference::Vector>;

Expected expected_rows(const Heads& heads, Index keys, Index rows) {
  const Index group = heads.query / heads.kv;
  reference::Attention how;
  how.heads = group;
  how.scale = double{scale_of(heads)};
  Expected result;
  for (Index head = 0; head < heads.kv; ++head) {
    const reference::Matrix head_keys = rows_of(heads, keys, head, 0);
    const reference::Matrix head_values = rows_of(heads, keys, head, 1);
    for (Index row : {Index{0}, rows / 2, rows - 1}) {
      const Index first = (row * heads.query + head * group) * heads.dim;
      if (result[row].size() == static_cast<std::size_t>((head + 1) * group * heads.dim)) continue;
      how.past = keys - rows + row;
      reference::Matrix query(1, group * heads.dim);
      query.cells = reference::to_double(bench::values(query.columns, kFirstQuery + first));
      const auto output = reference::attend(how, query, head_keys, head_values).output;
      result[row].insert(result[row].end(), output.cells.begin(), output.cells.end());
    }
  }
  return result;
}

// Rows of queries at the end of what a store holds, and the memory to attend in.
template <codec::Codec C>
class Question {
 public:
  Question(const kv::Contiguous<C>& store, const Heads& heads, Index rows, Executor& executor)
      : store_(store),
        heads_(heads),
        rows_(rows),
        executor_(executor),
        queries_(bench::values(rows * heads.query * heads.dim, kFirstQuery)),
        out_(queries_.size()),
        scratch_(store.geometry(), heads.query, executor.threads(), 1, store.end()) {}

  Index first() const { return store_.end() - rows_; }

  void attend(Index layer) {
    const attention::Sequence<kv::Contiguous<C>> sequence = {.store = &store_,
                                                             .first = first(),
                                                             .rows = rows_,
                                                             .queries = queries_.data(),
                                                             .out = out_.data()};
    const Index stride = heads_.query * heads_.dim;
    attention::attend(std::span(&sequence, 1),
                      {.layer = layer,
                       .heads = heads_.query,
                       .scale = scale_of(heads_),
                       .query_stride = stride,
                       .out_stride = stride},
                      attention::Causal{}, attention::Plain{}, scratch_, executor_);
  }

  // Attends and compares the rows that `expected` holds.
  void check(const Expected& expected) {
    attend(store_.geometry().layers - 1);
    for (const auto& [row, output] : expected) {
      const std::size_t at = static_cast<std::size_t>(row) * output.size();
      bench::require_near(std::span(out_).subspan(at, output.size()), output, kError, "attention");
    }
  }

 private:
  static constexpr double kError =
      C::kScaled ? 2e-2 : 1e-5;  // the reference's keys are not rounded

  const kv::Contiguous<C>& store_;
  Heads heads_;
  Index rows_;
  Executor& executor_;
  std::vector<float> queries_, out_;
  attention::Scratch scratch_;
};

template <codec::Codec C>
void decode(benchmark::State& state) {
  const Heads heads = heads_of(state);
  const Index keys = state.range(3);
  Executor& executor = bench::workers(state.range(4));
  const Index bytes = kv::Geometry{1, heads.kv, heads.dim, heads.dim}.bytes<C>(keys);
  const Index layers = ceil_div(kMemory, bytes);
  const auto& store =
      bench::cached(std::tuple(heads, keys), [&] { return random_store<C>(heads, keys, layers); });
  Question<C> question(store, heads, 1, executor);
  question.check(
      bench::cached(std::tuple(heads, keys), [&] { return expected_rows(heads, keys, 1); }));
  Index turn = 0;  // all take the next layer, so that none finds cached what another has just read
  const auto next = [&] { return turn++ % layers; };
  const auto cells = [&] {
    return static_cast<const void*>(store.panel_spans(next(), 0)[0].panels);
  };
  bench::race(state,
              {.unit = "GB/s",
               .amount = static_cast<double>(bytes),
               .threads = executor.threads(),
               .rivals = bench::reads(cells, bytes, executor)},
              [&] { question.attend(next()); });
}

void decode_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"heads", "kv_heads", "dim", "keys", "threads"})
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  for (const auto& [query, kv, dim] : {Heads{32, 8, 128}, {32, 32, 128}, {9, 3, 64}}) {
    for (Index keys : {512, 2048, 4096, 16384}) {
      for (Index threads : {1, 2}) list->Args({query, kv, dim, keys, threads});
    }
  }
}
BENCHMARK(decode<codec::F32>)->Apply(decode_cases);
BENCHMARK(decode<codec::BF16>)->Apply(decode_cases);
BENCHMARK(decode<codec::F16>)->Apply(decode_cases);

template <codec::Codec C>
void prefill(benchmark::State& state) {
  constexpr Index kRows = 512;
  const Heads heads = heads_of(state);
  const Index keys = state.range(3);
  Executor& executor = bench::workers(state.range(4));
  const auto& store =
      bench::cached(std::tuple(heads, keys), [&] { return random_store<C>(heads, keys, 1); });
  Question<C> question(store, heads, kRows, executor);
  question.check(
      bench::cached(std::tuple(heads, keys), [&] { return expected_rows(heads, keys, kRows); }));
  const Index seen = kRows * question.first() + kRows * (kRows + 1) / 2;
  const double flops = 2.0 * static_cast<double>(seen * heads.query * 2 * heads.dim);
  bench::race(state,
              {.unit = "GFLOP/s",
               .amount = flops,
               .threads = executor.threads(),
               .rivals = {bench::peak(executor)}},
              [&] { question.attend(0); });
}

void prefill_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"heads", "kv_heads", "dim", "keys", "threads"})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  for (const auto& [query, kv, dim] : {Heads{32, 8, 128}, {32, 32, 128}, {9, 3, 64}}) {
    for (Index keys : {512, 4096}) {
      for (Index threads : {1, 2}) list->Args({query, kv, dim, keys, threads});
    }
  }
}
BENCHMARK(prefill<codec::F32>)->Apply(prefill_cases);
BENCHMARK(prefill<codec::BF16>)->Apply(prefill_cases);
BENCHMARK(prefill<codec::F16>)->Apply(prefill_cases);
BENCHMARK(prefill<codec::Int8>)->Apply(prefill_cases);

}  // namespace
