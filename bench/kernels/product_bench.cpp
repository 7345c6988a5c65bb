// bench/kernels/product_bench.cpp - products beside the machine's bounds.
//
//   build/release/bench/bench_kernels_product --benchmark_filter=product
//   build/release/bench/bench_kernels_product --benchmark_filter=streamed
//       --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//
// product: rows of activations times a matrix that may fit the caches. GFLOP/s beside a loop of
// multiply-adds (of_peak) and, in f32, beside Eigen's own product (of_eigen).
// streamed: one row times 256 MiB of weights. GB/s beside a plain read of the same bytes, in one
// stream and in eight (of_read, of_read8).
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kernels/detail/packed.hpp>
#include <decant/kernels/detail/product.hpp>

#include "support/bounds.hpp"
#include "support/cached.hpp"
#include "support/check.hpp"
#include "support/race.hpp"
#include "support/random.hpp"

#include <benchmark/benchmark.h>
#include <Eigen/Core>

#include <concepts>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index kFirstInput = Index{1} << 40;  // weights are values 0, 1, ..., inputs from here

// How weights of a format are stored, and how far a product by them may be from the reference.
template <class C>
struct Format {
  using Stored = kernels::detail::Packed<C>;
  static constexpr double kTolerance = 1e-5;  // the values here fit any plain format
  static constexpr Index kBits = 8 * Index{sizeof(typename C::Cell)};
  static const void* data(const Stored& weights) { return weights.panel(0); }
};
template <codec::BlockCodec Q>
struct Format<Q> {
  using Stored = kernels::detail::PackedBlocks<Q>;
  static constexpr double kTolerance = Q::kBits == 8 ? 2e-2 : 0.2;
  static constexpr Index kBits = Q::kBits;
  static const void* data(const Stored& weights) { return weights.two_blocks(0, 0); }
};
template <class C>
using Stored = typename Format<C>::Stored;

// Shape    source [outputs][columns], as Eigen multiplies it
template <class C>
struct Weights {
  std::vector<float> source;
  Stored<C> packed;
};

template <class C>
Weights<C> random_weights(Index outputs, Index columns) {
  std::vector<float> source = bench::values(outputs * columns, 0);
  const kernels::MatrixView view =
      kernels::row_major(source.data(), codec::Type::f32, outputs, columns);
  Stored<C> packed({&view, 1});
  return {std::move(source), std::move(packed)};
}

template <class Packed>
void multiply(const Packed& weights, const Floats& in, Floats& out, kernels::RowTiles& tiles,
              Executor& executor) {
  kernels::detail::multiply(weights,
                            {.rows = in.rows(),
                             .in = in.data(),
                             .in_stride = in.cols(),
                             .out = out.data(),
                             .out_stride = out.cols()},
                            tiles, executor);
}

void multiply_by_eigen(const Eigen::Map<const Floats>& weights, const Floats& in, Floats& out) {
  if (in.rows() == 1) {
    out.transpose().noalias() = weights * in.transpose();
  } else {
    out.noalias() = in * weights.transpose();
  }
}

// Every 31st output, so each of the 16 lanes comes up, of every row: Eigen in double.
void check(const Floats& in, const Floats& out, double tolerance) {
  constexpr Index kEvery = 31;
  const Index outputs = (out.cols() - 1) / kEvery + 1;
  Floats weights(outputs, in.cols());
  Doubles found(out.rows(), outputs);
  for (Index n = 0; n < outputs; ++n) {
    bench::fill({weights.row(n).data(), static_cast<std::size_t>(in.cols())},
                n * kEvery * in.cols());
    found.col(n) = out.col(n * kEvery).cast<double>();
  }
  const Doubles expected = in.cast<double>() * weights.cast<double>().transpose();
  const auto all = [](const Doubles& matrix) {
    return std::span(matrix.data(), static_cast<std::size_t>(matrix.size()));
  };
  bench::require_near(all(found), all(expected), tolerance, "a product");
}

Floats random_rows(Index rows, Index columns) {
  Floats result(rows, columns);
  bench::fill({result.data(), static_cast<std::size_t>(result.size())}, kFirstInput);
  return result;
}

template <class C>
void product(benchmark::State& state) {
  const Index outputs = state.range(0);
  const Index columns = state.range(1);
  const Index rows = state.range(2);
  Executor& executor = bench::workers(state.range(3));
  const Weights<C>& weights = bench::cached(std::pair(outputs, columns),
                                            [&] { return random_weights<C>(outputs, columns); });
  const Floats in = random_rows(rows, columns);
  Floats out(rows, outputs);
  kernels::RowTiles tiles(in.rows(), in.cols());
  multiply(weights.packed, in, out, tiles, executor);
  check(in, out, Format<C>::kTolerance);
  const double flops = 2.0 * static_cast<double>(rows * outputs * columns);
  std::vector<bench::Rival> rivals = {bench::peak(executor)};
  if (std::same_as<C, codec::F32> && executor.threads() == 1) {
    const Eigen::Map<const Floats> plain(weights.source.data(), outputs, columns);
    rivals.push_back({"eigen", flops, [&, plain] { multiply_by_eigen(plain, in, out); }});
    rivals.back().run();
    check(in, out, Format<C>::kTolerance);
  }
  bench::race(state,
              {.unit = "GFLOP/s", .amount = flops, .threads = executor.threads(), .rivals = rivals},
              [&] { multiply(weights.packed, in, out, tiles, executor); });
}

void product_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"outputs", "columns", "rows", "threads"})->UseManualTime();
  for (auto [outputs, columns] :
       {std::pair<Index, Index>{2048, 2048}, {8192, 2048}, {576, 576}, {1536, 576}}) {
    for (Index rows : {1, 8, 32, 512}) {
      for (Index threads : {1, 2}) list->Args({outputs, columns, rows, threads});
    }
  }
}
BENCHMARK(product<codec::F32>)->Apply(product_cases);
BENCHMARK(product<codec::BF16>)->Apply(product_cases);
BENCHMARK(product<codec::F16>)->Apply(product_cases);
BENCHMARK(product<codec::Q8_0>)->Apply(product_cases);
BENCHMARK(product<codec::Q4_0>)->Apply(product_cases);

template <class C>
void streamed(benchmark::State& state) {
  constexpr Index kColumns = 2048;
  const Index outputs = state.range(0) * 1024 * 1024 / kColumns * 8 / Format<C>::kBits;
  Executor& executor = bench::workers(state.range(1));
  const Stored<C>& weights =
      bench::cached(outputs, [&] { return random_weights<C>(outputs, kColumns).packed; });
  const Floats in = random_rows(1, kColumns);
  Floats out(1, outputs);
  kernels::RowTiles tiles(in.rows(), in.cols());
  multiply(weights, in, out, tiles, executor);
  check(in, out, Format<C>::kTolerance);
  const auto bytes = [&] { return Format<C>::data(weights); };
  bench::race(state,
              {.unit = "GB/s",
               .amount = static_cast<double>(weights.bytes()),
               .threads = executor.threads(),
               .rivals = bench::reads(bytes, weights.bytes(), executor)},
              [&] { multiply(weights, in, out, tiles, executor); });
}

void streamed_cases(benchmark::internal::Benchmark* list) {
  list->ArgNames({"MiB", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  for (Index threads : {1, 2}) list->Args({256, threads});
}
BENCHMARK(streamed<codec::F32>)->Apply(streamed_cases);
BENCHMARK(streamed<codec::BF16>)->Apply(streamed_cases);
BENCHMARK(streamed<codec::F16>)->Apply(streamed_cases);
BENCHMARK(streamed<codec::Q8_0>)->Apply(streamed_cases);
BENCHMARK(streamed<codec::Q4_0>)->Apply(streamed_cases);

}  // namespace
