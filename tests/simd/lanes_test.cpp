// tests/simd/lanes_test.cpp - every operation on sixteen lanes against the same on one float.
#include <decant/simd/lanes.hpp>

#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace decant;
using namespace decant::simd;
using trial::kInfinity;
using trial::kNaN;
using Sixteen = std::array<float, 16>;

Sixteen values_of(const Lanes& lanes) {
  Sixteen values;
  store(values.data(), lanes);
  return values;
}

Sixteen noisy_sixteen(std::uint64_t seed, double scale = 1.0) {
  const std::vector<float> values = trial::noisy(16, seed, scale);
  Sixteen result;
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// The distance between neighbouring floats at `number`.
double spacing(double value) {
  const float near = static_cast<float>(std::abs(value));
  return static_cast<double>(std::nextafter(near, kInfinity)) - static_cast<double>(near);
}

TEST(Simd, LaneNIsElementNAtAnyAlignment) {
  for (std::size_t shift = 0; shift < 16; ++shift) {
    std::vector<float> from(32, kNaN);
    std::vector<float> to(48, -1.0f);
    for (std::size_t n = 0; n < 16; ++n) from[shift + n] = static_cast<float>(n);
    store(to.data() + shift + 1, load(from.data() + shift));
    for (std::size_t n = 0; n < to.size(); ++n) {
      const bool written = n > shift && n <= shift + 16;
      EXPECT_EQ(to[n], written ? static_cast<float>(n - shift - 1) : -1.0f);
    }
  }
}

TEST(Simd, FirstLanesReadNothingBeyondAndAreZeroThere) {
  for (std::size_t count = 0; count <= 16; ++count) {
    const auto exact = std::make_unique<float[]>(count);  // the address sanitizer guards its end
    for (std::size_t n = 0; n < count; ++n) exact[n] = static_cast<float>(n + 1);
    const Sixteen lanes = values_of(load_first(exact.get(), static_cast<Index>(count)));
    for (std::size_t n = 0; n < 16; ++n) {
      EXPECT_EQ(bits(lanes[n]), bits(n < count ? static_cast<float>(n + 1) : 0.0f));
    }
  }
}

TEST(Simd, FirstLanesAreStoredAndNoOthers) {
  const Sixteen values = noisy_sixteen(1);
  for (std::size_t count = 0; count <= 16; ++count) {
    std::vector<float> to(20, 7.0f);
    store_first(to.data(), load(values.data()), static_cast<Index>(count));
    for (std::size_t n = 0; n < to.size(); ++n) EXPECT_EQ(to[n], n < count ? values[n] : 7.0f);
  }
}

TEST(Simd, ArithmeticIsThatOfFloats) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Sixteen a = noisy_sixteen(3 * seed, 100);
    const Sixteen b = noisy_sixteen(3 * seed + 1, 0.01);
    const Sixteen c = noisy_sixteen(3 * seed + 2);
    const Lanes x = load(a.data());
    const Lanes y = load(b.data());
    const Lanes z = load(c.data());
    const Sixteen sum = values_of(x + y);
    const Sixteen difference = values_of(x - y);
    const Sixteen product = values_of(x * y);
    const Sixteen quotient = values_of(x / y);
    const Sixteen fused = values_of(madd(x, y, z));
    for (std::size_t n = 0; n < 16; ++n) {
      EXPECT_EQ(sum[n], a[n] + b[n]);
      EXPECT_EQ(difference[n], a[n] - b[n]);
      EXPECT_EQ(product[n], a[n] * b[n]);
      EXPECT_EQ(quotient[n], a[n] / b[n]);
      EXPECT_EQ(fused[n], madd(a[n], b[n], c[n]));  // one lane or sixteen: the same rounding
#if defined(__FMA__)
      EXPECT_EQ(fused[n], std::fma(a[n], b[n], c[n]));
#endif
    }
  }
}

TEST(Simd, MaximumIsTheFirstIfEitherIsNaN) {
  const Sixteen values = values_of(max(broadcast(1.0f), broadcast(2.0f)));
  EXPECT_EQ(values[7], 2.0f);
  EXPECT_EQ(values_of(max(broadcast(1.0f), broadcast(kNaN)))[15], 1.0f);
  EXPECT_TRUE(std::isnan(values_of(max(broadcast(kNaN), broadcast(1.0f)))[3]));
  EXPECT_EQ(values_of(max(broadcast(-kInfinity), broadcast(-5.0f)))[0], -5.0f);
}

TEST(Simd, AbsoluteValueClearsTheSignOfZeroAndInfinity) {
  EXPECT_EQ(bits(values_of(abs(broadcast(-0.0f)))[2]), bits(0.0f));
  EXPECT_EQ(values_of(abs(broadcast(-kInfinity)))[9], kInfinity);
  EXPECT_EQ(values_of(abs(broadcast(-2.5f)))[9], 2.5f);
}

TEST(Simd, OnlyWhatComparesBelowZeroIsNegative) {
  const auto chosen = [](float condition) {
    return values_of(where_negative(broadcast(condition), broadcast(1.0f), broadcast(2.0f)))[5];
  };
  EXPECT_EQ(chosen(-1e-40f), 1.0f);
  EXPECT_EQ(chosen(-kInfinity), 1.0f);
  EXPECT_EQ(chosen(-0.0f), 2.0f);
  EXPECT_EQ(chosen(0.0f), 2.0f);
  EXPECT_EQ(chosen(kNaN), 2.0f);
}

TEST(Simd, SelectRangeReplacesLanesOutsideItsRange) {
  for (Index begin = -20; begin <= 20; ++begin) {
    for (Index end = -20; end <= 84; ++end) {
      Sixteen values;
      values.fill(kNaN);
      for (Index n = std::max<Index>(0, begin); n < std::min<Index>(16, end); ++n) {
        values[static_cast<std::size_t>(n)] = static_cast<float>(n) + 0.25f;
      }
      const Sixteen selected = values_of(select_range(load(values.data()), begin, end, -kInfinity));
      for (Index n = 0; n < 16; ++n) {
        const bool inside = n >= begin && n < end;
        ASSERT_EQ(selected[static_cast<std::size_t>(n)],
                  inside ? static_cast<float>(n) + 0.25f : -kInfinity)
            << "[" << begin << ", " << end << "), lane " << n;
      }
    }
  }
}

TEST(Simd, SumsAlongOneTree) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Sixteen x = noisy_sixteen(seed, 1000);
    const float even = ((x[0] + x[8]) + (x[4] + x[12])) + ((x[2] + x[10]) + (x[6] + x[14]));
    const float odd = ((x[1] + x[9]) + (x[5] + x[13])) + ((x[3] + x[11]) + (x[7] + x[15]));
    EXPECT_EQ(reduce_add(load(x.data())), even + odd);
  }
}

TEST(Simd, FindsTheLargestLaneWhereverItIs) {
  for (std::size_t n = 0; n < 16; ++n) {
    Sixteen x;
    x.fill(-kInfinity);
    x[n] = -3.0f;
    EXPECT_EQ(reduce_max(load(x.data())), -3.0f);
    x[(n + 5) % 16] = -2.0f;
    EXPECT_EQ(reduce_max(load(x.data())), -2.0f);
  }
  EXPECT_EQ(reduce_max(broadcast(-kInfinity)), -kInfinity);
}

// Sixteen floats at a time, about two million, evenly over the bit patterns of `first` to `last`.
template <class F>
void each_sample(float first, float last, F&& f) {
  const std::uint32_t step = (bits(last) - bits(first)) / (trial::kSlowBuild ? 50'000 : 1'000'000);
  Sixteen x;
  std::uint32_t at = bits(first);
  while (at <= bits(last) - 16 * step) {
    for (float& value : x) value = std::bit_cast<float>(at += step);
    f(x);
  }
}

TEST(Simd, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  const auto check = [&](const Sixteen& x) {
    const Sixteen y = values_of(exp(load(x.data())));
    for (std::size_t n = 0; n < 16; ++n) {
      const double exact = std::exp(static_cast<double>(x[n]));
      worst = std::max(worst, std::abs(static_cast<double>(y[n]) - exact) / spacing(exact));
    }
  };
  each_sample(1e-30f, 88.0f, check);
  each_sample(-1e-30f, -87.68f, check);
  EXPECT_LT(worst, 2.0);
  EXPECT_GT(worst, 0.5);  // so that it was measured
}

TEST(Simd, ExponentialOfFarNegativesIsExactlyZero) {
  each_sample(-87.7f, -3.0e38f, [](const Sixteen& x) {
    for (float y : values_of(exp(load(x.data())))) ASSERT_EQ(bits(y), bits(0.0f)) << x[0];
  });
  EXPECT_EQ(bits(exp(-87.7f)), bits(0.0f));
  EXPECT_EQ(bits(exp(-kInfinity)), bits(0.0f));
}

TEST(Simd, ExponentialOfZeroIsExactlyOne) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
}

TEST(Simd, ExponentialOfNaNIsNaN) {
  Sixteen x = noisy_sixteen(4);
  x[11] = kNaN;
  const Sixteen y = values_of(exp(load(x.data())));
  for (std::size_t n = 0; n < 16; ++n) EXPECT_EQ(std::isnan(y[n]), n == 11);
  EXPECT_TRUE(std::isnan(exp(kNaN)));
}

TEST(Simd, ExponentialIsTheSameInEveryLaneAndAlone) {
  for (float x : trial::noisy(500, 5, 80.0)) {
    const float alone = exp(x);
    Sixteen others = noisy_sixteen(6, 80);
    for (std::size_t n = 0; n < 16; ++n) {
      Sixteen mixed = others;
      mixed[n] = x;
      EXPECT_EQ(bits(values_of(exp(load(mixed.data())))[n]), bits(alone));
    }
  }
}

TEST(Simd, SigmoidIsWithinAFewRoundings) {
  const auto check = [](const Sixteen& x) {
    const Sixteen y = values_of(sigmoid(load(x.data())));
    for (std::size_t n = 0; n < 16; ++n) {
      const double exact = 1 / (1 + std::exp(-static_cast<double>(x[n])));
      ASSERT_LE(std::abs(static_cast<double>(y[n]) - exact), 4 * spacing(exact)) << x[n];
    }
  };
  each_sample(1e-20f, 200.0f, check);
  each_sample(-1e-20f, -87.0f, check);
  EXPECT_EQ(values_of(sigmoid(broadcast(0.0f)))[0], 0.5f);
  EXPECT_EQ(values_of(sigmoid(broadcast(kInfinity)))[0], 1.0f);
  EXPECT_EQ(values_of(sigmoid(broadcast(-kInfinity)))[0], 0.0f);
  EXPECT_TRUE(std::isnan(values_of(sigmoid(broadcast(kNaN)))[0]));
}

TEST(Simd, HyperbolicTangentIsOddAndWithinItsBound) {
  each_sample(1e-20f, 200.0f, [](const Sixteen& x) {
    const Sixteen y = values_of(tanh(load(x.data())));
    const Sixteen negative = values_of(tanh(broadcast(0.0f) - load(x.data())));
    for (std::size_t n = 0; n < 16; ++n) {
      ASSERT_NEAR(y[n], std::tanh(static_cast<double>(x[n])), 1e-7) << x[n];
      ASSERT_EQ(negative[n], -y[n]);
    }
  });
  EXPECT_EQ(values_of(tanh(broadcast(0.0f)))[0], 0.0f);
  EXPECT_EQ(values_of(tanh(broadcast(kInfinity)))[0], 1.0f);
  EXPECT_EQ(values_of(tanh(broadcast(-kInfinity)))[0], -1.0f);
  EXPECT_TRUE(std::isnan(values_of(tanh(broadcast(kNaN)))[0]));
}

}  // namespace
