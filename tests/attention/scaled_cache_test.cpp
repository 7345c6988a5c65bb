// tests/attention/scaled_cache_test.cpp - the error of one scale for a row if one element is far
// above the others, that 16-bit formats do not have it, and rows of zeros or NaN.
#include "attention/run.hpp"

#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace {

using namespace decant;

// Two keys that agree but in channel 0, +0.3 and -0.3, with 100 in channel 5: the weight of the
// first for a query of 10 in channel 0.
template <codec::Codec K, codec::Codec V = K>
double first_weight() {
  reference::Matrix keys(2, 32), values(2, 16), query(1, 32);
  keys.row(0)[0] = 0.3;
  keys.row(1)[0] = -0.3;
  keys.row(0)[5] = keys.row(1)[5] = 100;
  values.row(0)[0] = 1;
  query.row(0)[0] = 10;
  const auto store = trial::store_of<K, V>(1, keys, values, 16);
  return trial::attend(store, 1, query, 1, 1 / std::sqrt(32.0), attention::Causal{}).output[0];
}

TEST(ScaledCache, LosesSmallElementsBesideALargeOne) {
  EXPECT_EQ(first_weight<codec::Int8>(), 0.5);  // a step of 100 / 127 rounds both to zero
  EXPECT_EQ(first_weight<codec::Int4>(), 0.5);  // and so does one of 100 / 7
  EXPECT_NEAR(first_weight<codec::F32>(), 0.742817, 1e-5);
  EXPECT_NEAR(first_weight<codec::BF16>(), 0.742817, 0.02);
  EXPECT_NEAR(first_weight<codec::F16>(), 0.742817, 1e-3);
  EXPECT_NEAR(first_weight<codec::FP8E4M3>(), 0.742817,
              0.02);  // small values have small steps
  EXPECT_NEAR(first_weight<codec::FP8E5M2>(), 0.742817, 0.05);
}

// So keys of such a model have 16 bits, and its values may have fewer.
TEST(ScaledCache, HasThemIfKeysAloneHave16Bits) {
  EXPECT_NEAR((first_weight<codec::F16, codec::Int8>()), 0.742817, 1e-3);
  EXPECT_NEAR((first_weight<codec::F16, codec::Int4>()), 0.742817, 1e-3);
  EXPECT_EQ((first_weight<codec::Int8, codec::F16>()), 0.5);
}

// Products beyond half precision, whose keys differ by less than a step of int4.
TEST(ScaledCache, TakesLargeScores) {
  const auto weight = []<codec::Codec C>(C) {
    reference::Matrix keys(2, 128), values(2, 16), query(1, 128);
    for (auto* rows : {&keys, &query}) std::ranges::fill(rows->cells, 24.0);
    keys.row(1)[0] = 23.5;
    values.row(0)[0] = 1;
    const auto store = trial::store_of<C>(1, keys, values, 16);
    return trial::attend(store, 1, query, 1, 1 / std::sqrt(128.0), attention::Causal{}).output[0];
  };
  EXPECT_NEAR(weight(codec::Int8{}), 0.742817, 0.03);  // 23.5 is 124.35 steps
  EXPECT_NEAR(weight(codec::Int4{}), 0.5, 1e-6);
}

// A group of 32 is unchanged by a large element in another.
TEST(ScaledCache, InFourBitsLosesOnlyTheGroupOfALargeElement) {
  std::vector<float> row(64);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
  row[5] = 100;
  kv::Contiguous<codec::Int4> store({1, 1, 64, 64}, 16);
  store.reserve(1);
  store.put(0, 0, 0, row, row);
  store.publish(1);
  std::vector<float> key(64), value(64);
  store.get(0, 0, 0, key, value);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (const float number : {key[i], value[i]}) {
      if (i == 5) {
        EXPECT_NEAR(number, 100, 1e-4);
      } else if (i < 32) {
        EXPECT_EQ(number, 0.0f) << i;
      } else {
        EXPECT_NEAR(number, row[i], 0.3 / 14 + 1e-6) << i;
      }
    }
  }
}

template <class C>
class ScaledRows : public testing::Test {};
using ScaledCodecs = testing::Types<codec::Int8, codec::Int4, codec::FP8E4M3, codec::FP8E5M2>;
TYPED_TEST_SUITE(ScaledRows, ScaledCodecs);

// Of 70 keys, key 7 is not finite: the row at 40 sees it, the row at 60 with a window of 50 does
// not.
TYPED_TEST(ScaledRows, OfNaNMakeTheRowsThatSeeThemNaN) {
  for (const double odd : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (const bool in_key : {true, false}) {
      reference::Matrix keys = trial::noisy_rows(70, 40, 1);
      reference::Matrix values = trial::noisy_rows(70, 40, 2);
      const auto clean = trial::store_of<TypeParam>(1, keys, values, 80);
      (in_key ? keys : values).row(7)[33] = odd;
      const auto store = trial::store_of<TypeParam>(1, keys, values, 80);
      const auto query = trial::noisy_rows(1, 40, 3);
      const auto seen = trial::attend(store, 40, query, 1, 0.2, attention::Causal{});
      EXPECT_TRUE(std::isnan(seen.output[33]));
      if (in_key) {
        for (float number : seen.output) EXPECT_TRUE(std::isnan(number));
      }
      const auto hidden = trial::attend(store, 60, query, 1, 0.2, attention::Causal{50});
      const auto same = trial::attend(clean, 60, query, 1, 0.2, attention::Causal{50});
      EXPECT_TRUE(trial::same_bits(same.output, hidden.output));
    }
  }
}

TYPED_TEST(ScaledRows, OfZerosScoreZeroAndAddNothing) {
  reference::Matrix keys(4, 40), values(4, 40);
  std::ranges::fill(values.row(1), 1.0);
  const auto store = trial::store_of<TypeParam>(1, keys, values, 16);
  const auto result =
      trial::attend(store, 3, trial::noisy_rows(1, 40, 3), 1, 1.0, attention::Causal{});
  for (float number : result.output) EXPECT_NEAR(number, 0.25, 1e-6);
  EXPECT_NEAR(result.log_sum_exp[0], std::log(4.0), 1e-6);
}

}  // namespace
