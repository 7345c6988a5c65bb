// tests/codec/int4_test.cpp - two values a byte: every byte, and how values are rounded.
#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using namespace decant;
using codec::Int4;

TEST(Int4, LoadsWhatEveryByteStandsFor) {
  for (int low = -7; low <= 7; ++low) {
    for (int high = -7; high <= 7; ++high) {
      const auto cell = static_cast<Int4::Cell>((low + 8) + (high + 8) * 16);
      EXPECT_EQ(Int4::load(cell, 0), static_cast<float>(low));
      EXPECT_EQ(Int4::load(cell, 1), static_cast<float>(high));
      EXPECT_EQ(Int4::store(static_cast<float>(low), static_cast<float>(high)), cell);
    }
  }
}

TEST(Int4, WidensAsItLoads) {
  for (int first = 0; first < 256; first += 16) {
    Int4::Cell cells[16];
    for (int n = 0; n < 16; ++n) cells[n] = static_cast<Int4::Cell>(first + n);
    float low[16], high[16];
    store(low, Int4::widen<0>(cells));
    store(high, Int4::widen<1>(cells));
    for (int n = 0; n < 16; ++n) {
      EXPECT_EQ(low[n], Int4::load(cells[n], 0)) << first + n;
      EXPECT_EQ(high[n], Int4::load(cells[n], 1)) << first + n;
    }
  }
}

TEST(Int4, StoresTheNearestValueTiesToEven) {
  const auto stored = [](float value) { return Int4::load(Int4::store(0.0f, value), 1); };
  for (int step = -14; step <= 14; ++step) {  // in halves
    const float value = static_cast<float>(step) / 2;
    EXPECT_EQ(stored(value), std::nearbyint(value)) << value;
    EXPECT_EQ(stored(std::nextafter(value, 1e9f)), std::floor(value + 0.5f)) << value;
  }
  EXPECT_EQ(stored(100.0f), 7.0f);
  EXPECT_EQ(stored(-100.0f), -7.0f);
  EXPECT_EQ(stored(std::numeric_limits<float>::quiet_NaN()), 0.0f);  // its scale is NaN
}

TEST(Int4, HasAScaleForEvery32ElementsOfARow) {
  EXPECT_EQ(codec::scales_of_row<Int4>(1), 1);
  EXPECT_EQ(codec::scales_of_row<Int4>(32), 1);
  EXPECT_EQ(codec::scales_of_row<Int4>(33), 2);
  EXPECT_EQ(codec::scales_of_row<Int4>(128), 4);
  EXPECT_EQ(codec::scales_of_row<codec::Int8>(128), 1);
  EXPECT_EQ(codec::scales_of_row<codec::BF16>(128), 0);
}

}  // namespace
