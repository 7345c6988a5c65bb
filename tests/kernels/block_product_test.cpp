// tests/kernels/block_product_test.cpp - products by block-quantised weights: the sums as
// they are defined, bit for bit, whatever other rows there are.
#include <decant/kernels/detail/product.hpp>

#include "law/bits.hpp"

#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using codec::Q4_0;
using codec::Q8_0;
using kernels::Activations;
using kernels::detail::PackedBlocks;

template <class Q>
struct BlockTrial {
  BlockTrial(Index output_count, Index column_count, Activations how = Activations::quantised)
      : outputs(output_count),
        columns(column_count),
        weights(packed(trial::noisy(outputs * columns, 5), how)) {}

  PackedBlocks<Q> packed(const std::vector<float>& values, Activations how) const {
    const auto view = kernels::row_major(values.data(), codec::Type::f32, outputs, columns);
    return PackedBlocks<Q>({&view, 1}, how);
  }

  std::vector<float> product(std::span<const float> in, Executor& executor = serial_executor()) {
    const Index rows = std::ssize(in) / columns;
    std::vector<float> out(static_cast<std::size_t>(rows * outputs));
    kernels::RowTiles tiles(rows, columns);
    kernels::detail::multiply(weights,
                              {.rows = rows,
                               .in = in.data(),
                               .in_stride = columns,
                               .out = out.data(),
                               .out_stride = outputs},
                              tiles, executor);
    return out;
  }

  Index outputs;
  Index columns;
  PackedBlocks<Q> weights;
};

// 32 elements of a row as integers and their scale.
struct IntegerRow {
  std::array<int, 32> values{};
  float scale = 0;

  explicit IntegerRow(std::span<const float> row) {
    float largest = 0;
    for (float value : row) largest = std::max(largest, std::abs(value));
    scale = largest / 127.0f;
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float shifted = simd::madd(row[i], inverse, 12582912.0f);
      values[i] = static_cast<int>(shifted - 12582912.0f);
    }
  }
};

// One output as the header defines it. Weights are integers times a scale; both are recovered from
// the widened row, whose elements are exact products.
template <class Q>
float defined(const PackedBlocks<Q>& weights, std::span<const float> in, Index output) {
  std::vector<float> row(in.size());
  weights.row(output, row);
  float sum = 0;
  for (std::size_t at = 0; at < row.size(); at += 32) {
    const std::size_t size = std::min<std::size_t>(32, row.size() - at);
    const IntegerRow quantised(in.subspan(at, size));
    const auto* blocks = weights.two_blocks(output / 16, static_cast<Index>(at));
    codec::F16::Cell stored;
    std::memcpy(&stored, blocks + (static_cast<Index>(at) / 32 % 2 * 16 + output % 16) * 2, 2);
    const float scale = codec::F16::load(stored);
    int products = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const int weight = scale == 0 ? 0 : static_cast<int>(std::lround(row[at + i] / scale));
      products += weight * quantised.values[i];
    }
    sum = simd::madd(static_cast<float>(products) * quantised.scale, scale, sum);
  }
  return sum;
}

template <class Q>
class BlockProduct : public testing::Test {};
using BlockFormats = testing::Types<Q8_0, Q4_0>;
TYPED_TEST_SUITE(BlockProduct, BlockFormats);

TYPED_TEST(BlockProduct, IsTheSumThatIsDefined) {
  for (Index outputs : {1, 15, 16, 17, 33, 70, 130}) {
    for (Index columns : {1, 31, 32, 33, 64, 65, 96, 200}) {
      BlockTrial<TypeParam> trial(outputs, columns);
      for (Index rows : {1, 2, 6, 8}) {
        const std::vector<float> in = trial::noisy(rows * columns, 6);
        const std::vector<float> out = trial.product(in);
        for (Index row = 0; row < rows; ++row) {
          for (Index output = 0; output < outputs; ++output) {
            ASSERT_EQ(out[static_cast<std::size_t>(row * outputs + output)],
                      defined(trial.weights,
                              std::span(in).subspan(static_cast<std::size_t>(row * columns),
                                                    static_cast<std::size_t>(columns)),
                              output))
                << outputs << " outputs of " << columns << ", row " << row << ", output " << output;
          }
        }
      }
    }
  }
}

// Rows and weights are off by half a step each, of 127 (8 bits) or 8 (4 bits) steps.
TYPED_TEST(BlockProduct, IsNearTheProductOfWhatWasQuantised) {
  const Index columns = 320;
  BlockTrial<TypeParam> trial(40, columns);
  const std::vector<float> in = trial::noisy(columns, 7);
  const std::vector<float> values = trial::noisy(40 * columns, 5);
  const std::vector<float> out = trial.product(in);
  const double step = TypeParam::kBits == 8 ? 1.0 / 127 : 1.0 / 8;
  for (std::size_t output = 0; output < 40; ++output) {
    double exact = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
      exact += static_cast<double>(in[k]) *
               static_cast<double>(values[output * static_cast<std::size_t>(columns) + k]);
    }
    EXPECT_NEAR(out[output], exact, 6 * step * std::sqrt(static_cast<double>(columns) / 3.0));
  }
}

TYPED_TEST(BlockProduct, WithFullActivationsAddsInAscendingOrder) {
  for (Index columns : {1, 32, 33, 70, 2100}) {
    BlockTrial<TypeParam> trial(37, columns, Activations::full);
    for (Index rows : {1, 7}) {
      const std::vector<float> in = trial::noisy(rows * columns, 8);
      const std::vector<float> out = trial.product(in);
      std::vector<float> row(static_cast<std::size_t>(columns));
      for (Index output = 0; output < 37; ++output) {
        trial.weights.row(output, row);
        for (Index r = 0; r < rows; ++r) {
          float sum = 0;
          for (std::size_t k = 0; k < row.size(); ++k) {
            sum = simd::madd(in[static_cast<std::size_t>(r * columns) + k], row[k], sum);
          }
          ASSERT_EQ(out[static_cast<std::size_t>(r * 37 + output)], sum)
              << columns << " columns, row " << r << ", output " << output;
        }
      }
    }
  }
}

TYPED_TEST(BlockProduct, GivesARowTheSameBitsAmongAnyRowsAndOnAnyThreads) {
  for (const Activations how : {Activations::quantised, Activations::full}) {
    for (Index columns : {40, 2100}) {
      BlockTrial<TypeParam> trial(145, columns, how);
      const std::vector<float> in = trial::noisy(29 * columns, 9);
      const std::vector<float> all = trial.product(in);
      ThreadPool pool(3);
      EXPECT_TRUE(trial::same_bits(all, trial.product(in, pool)));
      for (Index rows : {1, 2, 5, 6, 7, 13}) {
        const Index first = 29 - rows;
        const std::vector<float> some =
            trial.product(std::span(in).subspan(static_cast<std::size_t>(first * columns)), pool);
        EXPECT_TRUE(
            trial::same_bits(std::span(all).subspan(static_cast<std::size_t>(first * 145)), some));
      }
    }
  }
}

TYPED_TEST(BlockProduct, PropagatesNaNWithinItsRowAndOutput) {
  for (const float bad : {trial::kNaN, trial::kInfinity}) {
    BlockTrial<TypeParam> trial(33, 80);
    std::vector<float> values = trial::noisy(33 * 80, 5);
    values[20 * 80 + 70] = bad;
    std::vector<float> in = trial::noisy(8 * 80, 10);
    const std::vector<float> clean = trial.product(in);
    in[5 * 80 + 41] = bad;
    trial.weights = trial.packed(values, Activations::quantised);
    const std::vector<float> dirty = trial.product(in);
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t output = 0; output < 33; ++output) {
        const float value = dirty[row * 33 + output];
        if (row == 5 || output == 20) {
          EXPECT_TRUE(std::isnan(value)) << row << ", " << output;
        } else {
          EXPECT_EQ(value, clean[row * 33 + output]);
        }
      }
    }
  }
}

TYPED_TEST(BlockProduct, CopiesTheBlocksOfAFile) {
  using Block = typename TypeParam::Block;
  const std::vector<float> values = trial::noisy(20 * 96, 11);
  std::vector<Block> blocks;
  for (std::size_t at = 0; at < values.size(); at += 32) {
    blocks.push_back(TypeParam::quantise(std::span(values).subspan(at).template first<32>()));
  }
  const auto from_blocks = kernels::row_major(blocks.data(), TypeParam::kType, 20, 96);
  const auto from_floats = kernels::row_major(values.data(), codec::Type::f32, 20, 96);
  const PackedBlocks<TypeParam> one({&from_blocks, 1});
  const PackedBlocks<TypeParam> other({&from_floats, 1});
  ASSERT_EQ(one.bytes(), other.bytes());
  EXPECT_EQ(std::memcmp(one.two_blocks(0, 0), other.two_blocks(0, 0),
                        static_cast<std::size_t>(one.bytes())),
            0);
  const kernels::detail::Packed<codec::F32> wide({&from_blocks, 1});
  std::vector<float> expected(96);
  std::vector<float> row(96);
  for (Index r = 0; r < 20; ++r) {
    one.row(r, row);
    wide.row(r, expected);
    EXPECT_TRUE(trial::same_bits(expected, row));
  }
}

TYPED_TEST(BlockProduct, RefusesViewsOfHalfBlocks) {
  const std::vector<typename TypeParam::Block> blocks(4);
  const auto half = kernels::row_major(blocks.data(), TypeParam::kType, 2, 48);
  EXPECT_THROW(PackedBlocks<TypeParam>({&half, 1}), std::invalid_argument);
  kernels::MatrixView strided = kernels::row_major(blocks.data(), TypeParam::kType, 2, 64);
  strided.column_stride = 2;
  EXPECT_THROW(PackedBlocks<TypeParam>({&strided, 1}), std::invalid_argument);
  const auto huge = kernels::row_major(blocks.data(), TypeParam::kType, 4, Index{1} << 60);
  EXPECT_THROW(PackedBlocks<TypeParam>({&huge, 1}), std::invalid_argument);
  EXPECT_THROW(PackedBlocks<TypeParam>(std::span<const kernels::MatrixView>()),
               std::invalid_argument);
}

}  // namespace
