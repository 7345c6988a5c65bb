// Extents at the edge of 63 bits, where unchecked arithmetic would wrap.
#include <decant/core/shape.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace decant {
namespace {

constexpr Index kMost = std::numeric_limits<Index>::max();

static_assert(sizeof(Index) == 8 && std::is_signed_v<Index>);
static_assert(std::is_signed_v<Position> && std::is_signed_v<Token>);
static_assert(checked_product({2, 3, 5}) == 30 && checked_sum(2, 3) == 5);

TEST(Range, IsHalfOpen) {
  EXPECT_EQ((Range{3, 7}.size()), 4);
  EXPECT_FALSE((Range{3, 4}.empty()));
  EXPECT_TRUE((Range{3, 3}.empty()));
  EXPECT_EQ((Range{3, 3}.size()), 0);
  EXPECT_EQ((Range{1, 2}), (Range{1, 2}));
  EXPECT_NE((Range{1, 2}), (Range{1, 3}));
}

TEST(Range, ThatEndsBeforeItBeginsIsEmpty) {
  EXPECT_TRUE((Range{7, 3}.empty()));
  EXPECT_EQ((Range{7, 3}.size()), 0);
}

TEST(CeilDiv, RoundsUpOnlyWhereSomethingIsLeft) {
  EXPECT_EQ(ceil_div(0, 16), 0);
  EXPECT_EQ(ceil_div(1, 16), 1);
  EXPECT_EQ(ceil_div(15, 16), 1);
  EXPECT_EQ(ceil_div(16, 16), 1);
  EXPECT_EQ(ceil_div(17, 16), 2);
}

TEST(CeilDiv, DoesNotOverflowAtTheTop) {
  EXPECT_EQ(ceil_div(kMost, 1), kMost);
  EXPECT_EQ(ceil_div(kMost, 2), Index{1} << 62);
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
}

TEST(CheckedProduct, HoldsUpToTheLargestIndex) {
  EXPECT_EQ(checked_product(kMost, 1), kMost);
  EXPECT_EQ(checked_product(1, kMost), kMost);
  EXPECT_EQ(checked_product(Index{1} << 31, Index{1} << 31), Index{1} << 62);
  EXPECT_EQ(checked_product({7, 7, 73, 127, 337, 92737, 649657}), kMost);  // its factors
}

TEST(CheckedProduct, RefusesWhatWouldWrap) {
  EXPECT_THROW(checked_product(Index{1} << 32, Index{1} << 31), std::invalid_argument);
  EXPECT_THROW(checked_product(Index{1} << 32, Index{1} << 32), std::invalid_argument);  // to 0
  EXPECT_THROW(checked_product(kMost, 2), std::invalid_argument);
  EXPECT_THROW(checked_product({Index{1} << 22, Index{1} << 22, Index{1} << 22}),
               std::invalid_argument);
}

TEST(CheckedProduct, RefusesNegativeExtents) {
  EXPECT_THROW(checked_product(-1, 4), std::invalid_argument);
  EXPECT_THROW(checked_product(4, -1), std::invalid_argument);
  EXPECT_THROW(checked_product(0, -1), std::invalid_argument);
  EXPECT_THROW(checked_product(0, std::numeric_limits<Index>::min()), std::invalid_argument);
  EXPECT_THROW(checked_product({-1, -1}), std::invalid_argument);
}

TEST(CheckedProduct, ZeroAbsorbsFromBothSides) {
  EXPECT_EQ(checked_product(0, kMost), 0);
  EXPECT_EQ(checked_product(kMost, 0), 0);
  EXPECT_EQ(checked_product({0, kMost, kMost}), 0);
}

TEST(CheckedProduct, OfNothingIsOne) { EXPECT_EQ(checked_product({}), 1); }

TEST(CheckedProduct, NamesBothFactors) {
  try {
    checked_product(4611686018427387904, 5);
    FAIL() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("4611686018427387904 * 5"), std::string::npos)
        << error.what();
  }
}

TEST(CheckedSum, HoldsUpToTheLargestIndexAndRefusesTheNext) {
  EXPECT_EQ(checked_sum(kMost - 1, 1), kMost);
  EXPECT_EQ(checked_sum(0, kMost), kMost);
  EXPECT_THROW(checked_sum(kMost, 1), std::invalid_argument);
  EXPECT_THROW(checked_sum(1, kMost), std::invalid_argument);
  EXPECT_THROW(checked_sum(-1, 1), std::invalid_argument);
  EXPECT_THROW(checked_sum(1, -1), std::invalid_argument);
}

TEST(RoundUp, IsTheNextMultiple) {
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(1, 16), 16);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 16), 32);
  EXPECT_EQ(round_up(kMost - 15, 16), kMost - 15);
  EXPECT_THROW(round_up(kMost, 16), std::invalid_argument);
}

}  // namespace
}  // namespace decant
