// tests/attention/scaled_cache_test.cpp - what one scale for a row costs where one number is far
// above the others, and that 16 bits do not have that cost.
#include "attention/run.hpp"

#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace decant;

// Two keys that agree but in channel 0, +0.3 and -0.3, with 100 in channel 5: the weight of the
// first for a query of 10 in channel 0.
template <codec::Codec C>
double first_weight() {
  reference::Matrix keys(2, 32), values(2, 16), query(1, 32);
  keys.row(0)[0] = 0.3;
  keys.row(1)[0] = -0.3;
  keys.row(0)[5] = keys.row(1)[5] = 100;
  values.row(0)[0] = 1;
  query.row(0)[0] = 10;
  const auto store = trial::store_of<C>(1, keys, values, 16);
  return trial::attend(store, 1, query, 1, 1 / std::sqrt(32.0), attention::Causal{}).output[0];
}

TEST(ScaledCache, LosesWhatIsSmallBesideOneLargeNumberOfItsRow) {
  EXPECT_EQ(first_weight<codec::Int8>(), 0.5);  // a step of 100 / 127 rounds both to zero
  EXPECT_EQ(first_weight<codec::Int4>(), 0.5);  // and so does one of 100 / 7
  EXPECT_NEAR(first_weight<codec::F32>(), 0.742817, 1e-5);
  EXPECT_NEAR(first_weight<codec::BF16>(), 0.742817, 0.02);
  EXPECT_NEAR(first_weight<codec::F16>(), 0.742817, 1e-3);
  EXPECT_NEAR(first_weight<codec::FP8E4M3>(), 0.742817,
              0.02);  // steps as fine as numbers are small
  EXPECT_NEAR(first_weight<codec::FP8E5M2>(), 0.742817, 0.05);
}

}  // namespace
