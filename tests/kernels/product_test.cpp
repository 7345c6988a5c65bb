// tests/kernels/product_test.cpp - products against the reference, and rows against rows, bit for
// bit.
#include <decant/kernels/detail/product.hpp>

#include "law/bits.hpp"
#include "reference/matrix.hpp"

#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using kernels::detail::Packed;

// Where a product starts: at zero, a bias, what the output holds, or both.
struct Start {
  bool add = false;
  const float* bias = nullptr;
};

template <class C>
Packed<C> random_weights(Index outputs, Index columns, std::uint64_t seed) {
  const std::vector<float> values = trial::noisy(outputs * columns, seed);
  const kernels::MatrixView view =
      kernels::row_major(values.data(), codec::Type::f32, outputs, columns);
  return Packed<C>({&view, 1});
}

// The packed weights in double, as a layer of the reference.
template <class C>
reference::Linear reference_of(const Packed<C>& weights) {
  reference::Linear result{reference::Matrix(weights.rows(), weights.columns()), {}};
  std::vector<float> row(static_cast<std::size_t>(weights.columns()));
  for (Index r = 0; r < weights.rows(); ++r) {
    weights.row(r, row);
    std::copy(row.begin(), row.end(), result.matrix.row(r).begin());
  }
  return result;
}

constexpr float kCanary = -77.0f;

// A product whose strides are wider than its rows; what lies between the rows is NaN in the input
// and a canary in the output.
template <class C>
struct Trial {
  Trial(const Packed<C>& packed, Index row_count, Start how, std::uint64_t seed)
      : weights(packed),
        rows(row_count),
        start(how),
        in_stride(packed.columns() + 3),
        out_stride(packed.rows() + 5),
        in(static_cast<std::size_t>(rows * in_stride), trial::kNaN),
        out(static_cast<std::size_t>(rows * out_stride), kCanary) {
    const std::vector<float> x = trial::noisy(rows * weights.columns(), seed);
    const std::vector<float> y = trial::noisy(rows * weights.rows(), seed + 1);
    for (Index row = 0; row < rows; ++row) {
      std::copy_n(x.begin() + row * weights.columns(), weights.columns(),
                  in.begin() + row * in_stride);
      if (!start.add) continue;
      std::copy_n(y.begin() + row * weights.rows(), weights.rows(), out.begin() + row * out_stride);
    }
    before = out;
  }

  void run(Executor& executor = serial_executor()) {
    kernels::RowTiles tiles(rows, weights.columns());
    kernels::detail::multiply(weights,
                              {.rows = rows,
                               .in = in.data(),
                               .in_stride = in_stride,
                               .out = out.data(),
                               .out_stride = out_stride,
                               .add = start.add,
                               .bias = start.bias},
                              tiles, executor);
  }

  std::span<const float> in_row(Index row) const {
    return cut(in, row * in_stride, weights.columns());
  }
  std::span<const float> out_row(Index row) const {
    return cut(out, row * out_stride, weights.rows());
  }

  // The reference's sums, within what n roundings of a sum of such terms can do.
  void expect_near_reference() const {
    const reference::Linear linear = reference_of(weights);
    for (Index row = 0; row < rows; ++row) {
      const reference::Vector x = reference::to_double(in_row(row));
      for (Index output = 0; output < weights.rows(); ++output) {
        const std::span<const double> w = linear.matrix.row(output);
        double exact = start.add ? at(before, row, output) : 0;
        if (start.bias != nullptr) exact += static_cast<double>(start.bias[output]);
        double size = std::abs(exact) + (start.bias != nullptr ? 2 : 0);
        exact += reference::dot(w, x);
        for (std::size_t k = 0; k < x.size(); ++k) size += std::abs(w[k] * x[k]);
        const double bound = static_cast<double>(weights.columns() + 2) * trial::kRounding * size;
        ASSERT_NEAR(at(out, row, output), exact, bound) << "row " << row << ", output " << output;
      }
    }
  }

  void expect_nothing_else_written() const {
    for (std::size_t n = 0; n < out.size(); ++n) {
      if (static_cast<Index>(n) % out_stride < weights.rows()) continue;
      ASSERT_EQ(out[n], kCanary) << "number " << n;
    }
  }

  const Packed<C>& weights;
  Index rows;
  Start start;
  Index in_stride;
  Index out_stride;
  std::vector<float> in;
  std::vector<float> out;
  std::vector<float> before;

 private:
  static std::span<const float> cut(const std::vector<float>& values, Index first, Index size) {
    return std::span(values).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(size));
  }
  double at(const std::vector<float>& values, Index row, Index output) const {
    return static_cast<double>(values[static_cast<std::size_t>(row * out_stride + output)]);
  }
};

template <class C>
class Product : public testing::Test {};
using Codecs = testing::Types<F32, BF16, F16>;
TYPED_TEST_SUITE(Product, Codecs);

template <class C>
void expect_product(Index outputs, Index columns, Index rows, Start start = {}) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << columns << " to " << outputs);
  const Packed<C> weights = random_weights<C>(outputs, columns, 11);
  Trial<C> product(weights, rows, start, 12);
  product.run();
  product.expect_near_reference();
  product.expect_nothing_else_written();
}

TYPED_TEST(Product, MatchesTheReferenceAtEverySizeOfOutput) {
  for (Index outputs : {1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 257}) {
    for (Index rows : {1, 2, 7}) expect_product<TypeParam>(outputs, 37, rows);
  }
}

TYPED_TEST(Product, MatchesTheReferenceAtEverySizeOfInput) {
  for (Index columns :
       {1, 2, 3, 5, 6, 7, 15, 16, 17, 64, 65, 97, 385, 2047, 2048, 2049, 4097, 6147}) {
    for (Index rows : {1, 6, 8}) expect_product<TypeParam>(18, columns, rows);
  }
}

TYPED_TEST(Product, MatchesTheReferenceAtEveryNumberOfRows) {
  for (Index rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 95, 96, 97, 98, 101, 192, 193}) {
    expect_product<TypeParam>(65, 19, rows);
  }
}

TYPED_TEST(Product, StartsAtABiasOrAtWhatTheOutputHolds) {
  const std::vector<float> bias = trial::noisy(81, 13);
  for (Index rows : {1, 3, 9}) {
    for (Index columns : {7, 2100}) {
      expect_product<TypeParam>(81, columns, rows, {.bias = bias.data()});
      expect_product<TypeParam>(81, columns, rows, {.add = true});
      expect_product<TypeParam>(81, columns, rows, {.add = true, .bias = bias.data()});
    }
  }
}

TYPED_TEST(Product, OfNoRowsWritesNothing) {
  const Packed<TypeParam> weights = random_weights<TypeParam>(20, 5, 1);
  kernels::RowTiles tiles(0, 5);
  kernels::detail::multiply(weights, {}, tiles, serial_executor());
}

// The sum as the law has it: one accumulator, ascending columns, from the start given.
TYPED_TEST(Product, AddsColumnsInAscendingOrder) {
  const std::vector<float> bias = trial::noisy(70, 14);
  for (Index columns : {1, 2, 17, 384, 2049, 4100}) {
    const Packed<TypeParam> weights = random_weights<TypeParam>(70, columns, 15);
    const reference::Linear reference = reference_of(weights);
    for (Index rows : {1, 6, 7, 100}) {
      Trial<TypeParam> product(weights, rows, {.add = true, .bias = bias.data()}, 16);
      product.run();
      for (Index row : {Index{0}, rows / 2, rows - 1}) {
        std::vector<float> expected(70);
        for (std::size_t output = 0; output < 70; ++output) {
          float sum = product.before[static_cast<std::size_t>(row * product.out_stride) + output] +
                      bias[output];
          for (std::size_t k = 0; k < static_cast<std::size_t>(columns); ++k) {
            const auto weight =
                static_cast<float>(reference.matrix.row(static_cast<Index>(output))[k]);
            sum = simd::madd(product.in_row(row)[k], weight, sum);
          }
          expected[output] = sum;
        }
        ASSERT_TRUE(trial::same_bits(expected, product.out_row(row)))
            << rows << " rows of " << columns << ", row " << row;
      }
    }
  }
}

TYPED_TEST(Product, GivesARowTheSameBitsAloneAndAmongOthers) {
  for (Index columns : {5, 2051}) {
    const Packed<TypeParam> weights = random_weights<TypeParam>(145, columns, 17);
    Trial<TypeParam> all(weights, 199, {}, 18);
    all.run();
    for (Index rows : {1, 2, 5, 6, 7, 13, 95, 96, 97, 100}) {
      for (Index first : {Index{0}, Index{3}, 199 - rows}) {
        if (trial::kSlowBuild && first == 0) continue;
        Trial<TypeParam> some(weights, rows, {}, 0);
        std::copy_n(all.in.begin() + first * all.in_stride, some.in.size(), some.in.begin());
        some.run();
        for (Index row = 0; row < rows; ++row) {
          ASSERT_TRUE(trial::same_bits(all.out_row(first + row), some.out_row(row)))
              << columns << " columns, row " << row << " of " << rows << " from " << first;
        }
      }
    }
  }
}

TYPED_TEST(Product, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (Index rows : {1, 5, 6, 7, 130}) {
    const Packed<TypeParam> weights = random_weights<TypeParam>(641, 391, 19);
    Trial<TypeParam> alone(weights, rows, {}, 20);
    alone.run();
    for (Index threads : {2, 3, 5}) {
      ThreadPool pool(threads);
      Trial<TypeParam> shared(weights, rows, {}, 20);
      shared.run(pool);
      ASSERT_TRUE(trial::same_bits(alone.out, shared.out)) << rows << " rows on " << threads;
      shared.expect_nothing_else_written();
    }
  }
}

// A NaN in one row stays in that row; in the weights of one output, in that output.
TYPED_TEST(Product, PropagatesNaNWithinItsRowOrOutput) {
  const std::vector<float> values = trial::noisy(33 * 9, 21);
  std::vector<float> poisoned = values;
  poisoned[20 * 9 + 4] = trial::kNaN;
  const auto pack = [](const std::vector<float>& from) {
    const kernels::MatrixView view = kernels::row_major(from.data(), codec::Type::f32, 33, 9);
    return Packed<TypeParam>({&view, 1});
  };
  const Packed<TypeParam> clean_weights = pack(values);
  const Packed<TypeParam> poisoned_weights = pack(poisoned);
  Trial<TypeParam> clean(clean_weights, 8, {}, 22);
  Trial<TypeParam> dirty(poisoned_weights, 8, {}, 22);
  dirty.in[static_cast<std::size_t>(5 * dirty.in_stride) + 2] = trial::kInfinity;
  clean.run();
  dirty.run();
  for (Index row = 0; row < 8; ++row) {
    for (std::size_t output = 0; output < 33; ++output) {
      if (output == 20) {
        EXPECT_TRUE(std::isnan(dirty.out_row(row)[output]));
      } else if (row == 5) {
        EXPECT_FALSE(std::isfinite(dirty.out_row(row)[output]));
      } else {
        EXPECT_EQ(dirty.out_row(row)[output], clean.out_row(row)[output]);
      }
    }
  }
}

}  // namespace
