// tests/codec/plain_test.cpp - the codec laws over all 65,536 cells of the 16-bit formats, and
// their conversions against Eigen's.
#include <decant/codec/detail/widen.hpp>
#include <decant/codec/plain.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>
#include <Eigen/Core>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using codec::Type;
using trial::kInfinity;
using trial::kNaN;

template <class C>
typename C::Cell cell_of(std::uint32_t bits) {
  return std::bit_cast<typename C::Cell>(static_cast<std::uint16_t>(bits));
}
template <class C>
std::uint16_t bits_of(typename C::Cell cell) {
  return std::bit_cast<std::uint16_t>(cell);
}
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

template <class C>
class SixteenBits : public testing::Test {};
using SixteenBitCodecs = testing::Types<BF16, F16>;
TYPED_TEST_SUITE(SixteenBits, SixteenBitCodecs);

TYPED_TEST(SixteenBits, StoringWhatWasLoadedGivesTheCellAgain) {
  using C = TypeParam;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = C::load(cell_of<C>(bits));
    const auto again = C::store(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(C::load(again))) << bits;
    } else {
      EXPECT_EQ(bits_of<C>(again), bits);
    }
  }
}

TYPED_TEST(SixteenBits, WideningGivesWhatLoadingGives) {
  using C = TypeParam;
  constexpr Index kRun = 16 * C::kInterleave;
  for (Index first = 0; first < 65536; first += kRun) {
    std::vector<typename C::Cell> cells(static_cast<std::size_t>(kRun));
    for (Index n = 0; n < kRun; ++n) {
      cells[static_cast<std::size_t>(n)] = cell_of<C>(static_cast<std::uint32_t>(first + n));
    }
    for (Index k = 0; k < C::kInterleave; ++k) {
      float wide[16];
      store(wide, k == 0 ? C::template widen<0>(cells.data())
                         : C::template widen<C::kInterleave - 1>(cells.data()));
      for (Index n = 0; n < 16; ++n) {
        const float loaded = C::load(cells[static_cast<std::size_t>(n * C::kInterleave + k)]);
        if (std::isnan(loaded)) {  // conversion instructions quiet a signalling NaN
          ASSERT_TRUE(std::isnan(wide[n])) << first << ", number " << k << " of " << n;
        } else {
          ASSERT_EQ(bits_of(wide[n]), bits_of(loaded)) << first << ", number " << k << " of " << n;
        }
      }
    }
  }
}

// Between each two neighbours: the halfway point goes to the even one, its sides to their own.
TYPED_TEST(SixteenBits, RoundsToNearestAndTiesToEven) {
  using C = TypeParam;
  for (std::uint32_t sign : {0u, 0x8000u}) {
    for (std::uint32_t low = 0; std::isfinite(C::load(cell_of<C>(low + 1))); ++low) {
      const float a = C::load(cell_of<C>(sign | low));
      const float b = C::load(cell_of<C>(sign | (low + 1)));
      const float middle =
          static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
      ASSERT_EQ(bits_of<C>(C::store(middle)), sign | (low + low % 2)) << middle;
      ASSERT_EQ(bits_of<C>(C::store(std::nextafter(middle, a))), sign | low) << middle;
      ASSERT_EQ(bits_of<C>(C::store(std::nextafter(middle, b))), sign | (low + 1)) << middle;
    }
  }
}

TYPED_TEST(SixteenBits, NaNStaysNaN) {
  for (std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff812345u, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(TypeParam::load(TypeParam::store(std::bit_cast<float>(bits))))) << bits;
  }
}

TYPED_TEST(SixteenBits, InfinitiesAndZerosHaveTheirSign) {
  for (float value : {kInfinity, -kInfinity, 0.0f, -0.0f}) {
    EXPECT_EQ(bits_of(TypeParam::load(TypeParam::store(value))), bits_of(value));
  }
}

template <class C>
using OfEigen = std::conditional_t<std::same_as<C, BF16>, Eigen::bfloat16, Eigen::half>;

// Some of every exponent, and the neighbourhoods of what rounds differently.
std::vector<float> many_values() {
  std::mt19937 random(1);
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (std::uint32_t lower : {0u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
    values.push_back(
        std::bit_cast<float>(upper << 16 | static_cast<std::uint32_t>(random() & 0xFFFF)));
  }
  return values;
}

TYPED_TEST(SixteenBits, ConvertAsEigenConverts) {
  using C = TypeParam;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float expected =
        static_cast<float>(Eigen::numext::bit_cast<OfEigen<C>>(static_cast<std::uint16_t>(bits)));
    const float loaded = C::load(cell_of<C>(bits));
    ASSERT_TRUE(bits_of(loaded) == bits_of(expected) ||
                (std::isnan(loaded) && std::isnan(expected)))
        << bits;
  }
  for (float value : many_values()) {
    const auto expected = Eigen::numext::bit_cast<std::uint16_t>(OfEigen<C>(value));
    const auto cell = C::store(value);
    ASSERT_TRUE(bits_of<C>(cell) == expected || (std::isnan(value) && std::isnan(C::load(cell))))
        << bits_of(value);
  }
}

TEST(HalfPrecision, ConvertsTheSameWithAndWithoutInstructions) {
  for (float value : many_values()) {
    ASSERT_EQ(bits_of<F16>(F16::store(value)), codec::detail::f16_of_f32(value)) << bits_of(value);
  }
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(bits_of(F16::load(cell_of<F16>(bits))),
              bits_of(codec::detail::f32_of_f16(static_cast<std::uint16_t>(bits))))
        << bits;
  }
}

// The first value that is nearer to the next power of two than to the largest finite cell.
TEST(HalfPrecision, OverflowsToInfinityFromHalfwayOn) {
  EXPECT_EQ(F16::load(F16::store(65504.0f)), 65504.0f);
  EXPECT_EQ(F16::load(F16::store(std::nextafter(65520.0f, 0.0f))), 65504.0f);
  EXPECT_EQ(F16::load(F16::store(65520.0f)), kInfinity);
  EXPECT_EQ(F16::load(F16::store(-65520.0f)), -kInfinity);
  EXPECT_EQ(F16::load(F16::store(std::numeric_limits<float>::max())), kInfinity);
}

TEST(HalfPrecision, HoldsSubnormalsDownToTwoToTheMinus24) {
  EXPECT_EQ(F16::load(F16::store(0x1p-24f)), 0x1p-24f);
  EXPECT_EQ(F16::load(F16::store(0x3p-24f)), 0x3p-24f);
  EXPECT_EQ(F16::load(F16::store(0x1p-25f)), 0.0f);  // a tie, to even
  EXPECT_EQ(F16::load(F16::store(0x1.000002p-25f)), 0x1p-24f);
}

TEST(BrainFloat, IsTheUpperHalfOfAFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    EXPECT_EQ(bits_of(BF16::load(cell_of<BF16>(bits))), bits << 16);
  }
}

TEST(BrainFloat, ANaNHasItsSignAndIsQuiet) {
  for (std::uint32_t sign : {0u, 0x80000000u}) {
    for (std::uint32_t payload : {1u, 0x8000u, 0x400000u, 0x7fffffu}) {
      const float value = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_EQ(bits_of(BF16::load(BF16::store(value))), sign | 0x7fc00000u) << payload;
    }
  }
}

TEST(BrainFloat, OverflowsToInfinityFromHalfwayOn) {
  const float largest = std::bit_cast<float>(0x7f7f0000u);
  EXPECT_EQ(BF16::load(BF16::store(std::bit_cast<float>(0x7f7f7fffu))), largest);
  EXPECT_EQ(BF16::load(BF16::store(std::bit_cast<float>(0x7f7f8000u))), kInfinity);
  EXPECT_EQ(BF16::load(BF16::store(-std::numeric_limits<float>::max())), -kInfinity);
}

TEST(BrainFloat, HoldsSubnormals) {
  const float smallest = std::bit_cast<float>(0x00010000u);
  EXPECT_EQ(BF16::load(BF16::store(smallest)), smallest);
  EXPECT_EQ(BF16::load(BF16::store(smallest / 2)), 0.0f);
  EXPECT_EQ(BF16::load(BF16::store(smallest * 1.5f)), 2 * smallest);
}

TEST(SingleFloat, IsStoredAsItIs) {
  for (float value : {0.0f, -0.0f, 1e-45f, -3.25f, kInfinity, kNaN}) {
    EXPECT_EQ(bits_of(F32::load(F32::store(value))), bits_of(value));
  }
  const std::vector<float> values = trial::noisy(16, 1);
  std::vector<float> wide(16);
  store(wide.data(), F32::widen<0>(values.data()));
  EXPECT_EQ(wide, values);
}

TEST(CodecType, IsFoundByNameAndVisitedByType) {
  for (Type type : {Type::f32, Type::bf16, Type::f16}) {
    EXPECT_EQ(codec::parse(codec::name(type)), type);
    codec::visit(type, [&](auto c) {
      EXPECT_EQ(c.kType, type);
      EXPECT_EQ(codec::cell_bytes(type), Index{sizeof(typename decltype(c)::Cell)});
    });
  }
  EXPECT_EQ(codec::name(Type::bf16), "bf16");
  for (const char* unknown : {"", "F32", "bf", "bf16 ", "int3"}) {
    EXPECT_FALSE(codec::parse(unknown).has_value()) << unknown;
  }
}

}  // namespace
