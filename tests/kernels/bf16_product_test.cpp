// tests/kernels/bf16_product_test.cpp - products of rows in bf16 by weights in bf16: near the sums
// as they are defined, and the same bits whatever other rows there are. Machines without the
// instruction run the portable reference here.
#include <decant/kernels/detail/product.hpp>

#include "law/bits.hpp"

#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using kernels::Activations;

kernels::detail::Packed<BF16> packed(const std::vector<float>& values, Index outputs,
                                     Index columns) {
  const auto view = kernels::row_major(values.data(), codec::Type::f32, outputs, columns);
  return kernels::detail::Packed<BF16>({&view, 1}, Activations::quantised);
}

std::vector<float> product(const kernels::detail::Packed<BF16>& weights, std::span<const float> in,
                           Executor& executor = serial_executor()) {
  const Index rows = std::ssize(in) / weights.columns();
  std::vector<float> out(static_cast<std::size_t>(rows * weights.rows()));
  kernels::RowTiles tiles(rows, weights.columns());
  kernels::detail::multiply(weights,
                            {.rows = rows,
                             .in = in.data(),
                             .in_stride = weights.columns(),
                             .out = out.data(),
                             .out_stride = weights.rows()},
                            tiles, executor);
  return out;
}

double rounded(float value) { return static_cast<double>(BF16::load(BF16::store(value))); }

TEST(Bf16Product, IsTheSumOfProductsOfRoundedValues) {
  for (Index outputs : {1, 16, 17, 70, 130}) {
    for (Index columns : {1, 2, 15, 16, 17, 33, 96, 2049, 4100}) {
      const std::vector<float> values = trial::noisy(outputs * columns, 5);
      const kernels::detail::Packed<BF16> weights = packed(values, outputs, columns);
      for (Index rows : {1, 2, 6, 8}) {
        const std::vector<float> in = trial::noisy(rows * columns, 6);
        const std::vector<float> out = product(weights, in);
        for (Index row = 0; row < rows; ++row) {
          for (Index output = 0; output < outputs; output += 5) {
            double exact = 0;
            for (Index k = 0; k < columns; ++k) {
              exact += rounded(in[static_cast<std::size_t>(row * columns + k)]) *
                       rounded(values[static_cast<std::size_t>(output * columns + k)]);
            }
            ASSERT_NEAR(out[static_cast<std::size_t>(row * outputs + output)], exact,
                        2e-6 * std::sqrt(static_cast<double>(columns)) + 1e-6)
                << outputs << " outputs of " << columns << ", row " << row << ", output " << output;
          }
        }
      }
    }
  }
}

TEST(Bf16Product, GivesARowTheSameBitsAmongAnyRowsAndOnAnyThreads) {
  for (Index columns : {41, 2100}) {
    const kernels::detail::Packed<BF16> weights =
        packed(trial::noisy(145 * columns, 5), 145, columns);
    const std::vector<float> in = trial::noisy(29 * columns, 9);
    const std::vector<float> all = product(weights, in);
    ThreadPool pool(3);
    EXPECT_TRUE(trial::same_bits(all, product(weights, in, pool)));
    for (Index rows : {1, 2, 5, 6, 7, 13}) {
      const Index first = 29 - rows;
      const auto some =
          product(weights, std::span(in).subspan(static_cast<std::size_t>(first * columns)), pool);
      EXPECT_TRUE(
          trial::same_bits(std::span(all).subspan(static_cast<std::size_t>(first * 145)), some));
    }
  }
}

TEST(Bf16Product, PropagatesNaNWithinItsRow) {
  const kernels::detail::Packed<BF16> weights = packed(trial::noisy(33 * 81, 5), 33, 81);
  std::vector<float> in = trial::noisy(8 * 81, 10);
  const std::vector<float> clean = product(weights, in);
  in[5 * 81 + 80] = trial::kNaN;
  const std::vector<float> dirty = product(weights, in);
  for (std::size_t at = 0; at < clean.size(); ++at) {
    if (at / 33 == 5) {
      EXPECT_TRUE(std::isnan(dirty[at])) << at;
    } else {
      EXPECT_EQ(dirty[at], clean[at]) << at;
    }
  }
}

TEST(Bf16Product, IsForBf16Alone) {
  const std::vector<float> values(16, 1.0f);
  const auto view = kernels::row_major(values.data(), codec::Type::f32, 4, 4);
  const kernels::detail::Packed<codec::F16> other({&view, 1}, Activations::quantised);
  EXPECT_EQ(other.activations(), Activations::full);
  EXPECT_EQ(packed(values, 4, 4).activations(), Activations::quantised);
}

}  // namespace
