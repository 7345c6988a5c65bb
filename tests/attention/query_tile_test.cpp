// tests/attention/query_tile_test.cpp - quantised queries: how near they are, that no sum leaves
// 32 bits, and that scores of one query have the same bits alone and among others, on any worker.
#include <decant/attention/detail/query_tile.hpp>

#include "attention/run.hpp"
#include "law/bits.hpp"
#include "law/executors.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/core/executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace decant;
using attention::detail::largest_of_query;
using attention::detail::quantise_query;
using codec::Int4;
using codec::Int8;

struct Quantised {
  float scale = 0;
  std::vector<std::int32_t> elements;  // all
};

// As row `r` of a tile of three.
Quantised quantise(const std::vector<float>& row, Index largest, Index r = 1) {
  std::vector<std::int32_t> tile(static_cast<std::size_t>(ceil_div(std::ssize(row), 2)) * 3, -1);
  Quantised result;
  result.scale = quantise_query(row.data(), std::ssize(row), largest, tile.data(), 3, r);
  for (std::size_t at = 0; at < tile.size(); ++at) {
    if (at % 3 != static_cast<std::size_t>(r)) {
      EXPECT_EQ(tile[at], -1) << "another row's";
      continue;
    }
    result.elements.push_back(static_cast<std::int16_t>(tile[at]));
    result.elements.push_back(static_cast<std::int16_t>(tile[at] >> 16));
  }
  return result;
}

TEST(QueryTile, IsOffByHalfAStepAtMost) {
  for (Index count : {1, 2, 3, 15, 16, 17, 33, 128, 200}) {
    for (float size : {1e-30f, 1.0f, 1e30f}) {
      std::vector<float> row = trial::noisy(count, 7);
      for (float& number : row) number *= size;
      for (Index largest : {100, 32767}) {
        const Quantised result = quantise(row, largest);
        for (std::size_t k = 0; k < row.size(); ++k) {
          EXPECT_LE(std::abs(result.elements[k]), largest);
          EXPECT_NEAR(result.elements[k] * double{result.scale}, double{row[k]},
                      double{result.scale} * (0.5 + 1e-6 * static_cast<double>(largest)));
        }
        if (count % 2 == 1) {
          EXPECT_EQ(result.elements.back(), 0);
        }
      }
    }
  }
}

TEST(QueryTile, OfZerosIsZeroAndOfNaNIsNaN) {
  for (float nothing : {0.0f, -0.0f, 1e-40f}) {
    const Quantised result = quantise({nothing, nothing, nothing}, 32767);
    EXPECT_EQ(result.scale, 0.0f);
    EXPECT_EQ(result.elements, std::vector<std::int32_t>(4));
  }
  const float infinite = std::numeric_limits<float>::infinity();
  for (float odd : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t at : {std::size_t{0}, std::size_t{16}, std::size_t{20}}) {
      std::vector<float> row(21, 1.0f);
      row[at] = odd;
      EXPECT_TRUE(std::isnan(quantise(row, 32767).scale));
    }
  }
}

TEST(QueryTile, LeavesRoomForEverySum) {
  EXPECT_EQ(largest_of_query<Int8>(64), 32767);
  EXPECT_EQ(largest_of_query<Int8>(512), 32767);
  EXPECT_EQ(largest_of_query<Int4>(100'000), 32767);  // a sum for every 32 elements
  for (Index key_dim : {1, 32, 512, 513, 576, 4096, 60'000}) {
    const Index largest = largest_of_query<Int8>(key_dim);
    EXPECT_GE(largest, 1);
    EXPECT_LE(largest * 128 * key_dim, std::numeric_limits<std::int32_t>::max());
  }
}

// The largest query along the largest key, in heads so wide that 16 bits of query would overflow.
TEST(QueryTile, OfWideHeadsDoesNotOverflow) {
  constexpr Index kDim = 2048;
  reference::Matrix keys(2, kDim), values(2, 16), query(1, kDim);
  std::ranges::fill(query.cells, 1.0);
  std::ranges::fill(keys.row(0), 1.0);
  std::ranges::fill(keys.row(1), -1.0);
  const auto store = trial::store_of<Int8>(1, keys, values, 16);
  const auto result = trial::attend(store, 1, query, 1, 1.0, attention::Causal{});
  EXPECT_NEAR(result.log_sum_exp[0], double{kDim}, 1e-3 * double{kDim});
}

// Queries one by one, and 1 to 13 rows of 3 heads at once.
template <class C>
class QueryTiles : public testing::Test {};
using IntegerCodecs = testing::Types<Int8, Int4>;
TYPED_TEST_SUITE(QueryTiles, IntegerCodecs);

TYPED_TEST(QueryTiles, GiveARowTheSameBitsAloneAndAmongOthers) {
  for (Index dim : {1, 7, 40, 65, 128}) {
    const auto keys = trial::noisy_rows(90, dim, 1);
    const auto values = trial::noisy_rows(90, 40, 2);
    const auto store = trial::store_of<TypeParam>(1, keys, values, 100);
    const auto all = trial::noisy_rows(13, 3 * dim, 3);
    const auto together = trial::attend(store, 77, all, 3, 0.3, attention::Causal{});
    for (Index row = 0; row < 13; ++row) {
      reference::Matrix one(1, all.columns);
      std::ranges::copy(all.row(row), one.cells.begin());
      const auto alone = trial::attend(store, 77 + row, one, 3, 0.3, attention::Causal{});
      const auto size = static_cast<std::size_t>(3 * 40);
      EXPECT_TRUE(trial::same_bits(
          std::span(together.output).subspan(static_cast<std::size_t>(row) * size, size),
          std::span(alone.output)));
    }
  }
}

// Element 33 of head 1 of row 5 is NaN: the outputs of that head are NaN, all others unchanged.
TYPED_TEST(QueryTiles, OfNaNMakeTheirOwnScoresNaN) {
  const auto keys = trial::noisy_rows(90, 40, 1);
  const auto values = trial::noisy_rows(90, 40, 2);
  const auto store = trial::store_of<TypeParam>(1, keys, values, 100);
  auto queries = trial::noisy_rows(13, 3 * 40, 3);
  const auto clean = trial::attend(store, 77, queries, 3, 0.3, attention::Causal{});
  constexpr std::size_t kOdd = 5 * 3 + 1;
  for (const double odd : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    queries.row(5)[40 + 33] = odd;
    const auto result = trial::attend(store, 77, queries, 3, 0.3, attention::Causal{});
    for (std::size_t at = 0; at < result.output.size(); ++at) {
      if (at / 40 == kOdd) {
        ASSERT_TRUE(std::isnan(result.output[at])) << at;
      } else {
        ASSERT_EQ(result.output[at], clean.output[at]) << at;
      }
    }
    EXPECT_TRUE(std::isnan(result.log_sum_exp[kOdd]));
  }
}

// A lone row's segments go to different workers, each of which quantises the queries again.
TYPED_TEST(QueryTiles, GiveTheSameBitsOnEveryNumberOfWorkers) {
  const auto keys = trial::noisy_rows(2200, 2 * 33, 1);
  const auto values = trial::noisy_rows(2200, 2 * 20, 2);
  const auto store = trial::store_of<TypeParam>(2, keys, values, 2200);
  for (Index rows : {1, 40}) {
    const auto queries = trial::noisy_rows(rows, 6 * 33, 3);
    const auto on = [&](Executor& executor) {
      return trial::attend(store, 2200 - rows, queries, 6, 0.3, attention::Causal{},
                           attention::Plain{}, executor);
    };
    const auto alone = on(serial_executor());
    for (Index threads : {3, 5}) {
      trial::ShuffledExecutor executor(threads, static_cast<unsigned>(rows));
      EXPECT_TRUE(trial::same_bits(alone.output, on(executor).output)) << rows << ", " << threads;
    }
  }
}

// A sum over the bits of all outputs (FNV-1a, by words).
template <class C>
std::uint64_t bits_of_attention() {
  const auto keys = trial::noisy_rows(1100, 2 * 65, 1);  // longer than a segment
  const auto values = trial::noisy_rows(1100, 2 * 40, 2);
  const auto store = trial::store_of<C>(2, keys, values, 1100);
  const auto queries = trial::noisy_rows(30, 6 * 65, 3);
  std::uint64_t sum = 14695981039346656037u;
  for (float number : trial::attend(store, 1070, queries, 6, 0.3, attention::Causal{}).output) {
    sum = (sum ^ std::bit_cast<std::uint32_t>(number)) * 1099511628211u;
  }
  return sum;
}

// As builds for AVX2 and for AVX-512, with and without int16 dot products, gave them.
TEST(QueryTile, GivesTheSameBitsOnEveryMachine) {
#if !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)
  GTEST_SKIP() << "this build does not fuse multiply-adds";
#endif
  EXPECT_EQ(bits_of_attention<Int8>(), 16575285987761012495u);
  EXPECT_EQ(bits_of_attention<Int4>(), 6593715672781788639u);
}

}  // namespace
