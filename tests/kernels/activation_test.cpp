// tests/kernels/activation_test.cpp - activations against their formulas in double, at every size.
#include <decant/kernels/activation.hpp>

#include "law/bits.hpp"
#include "reference/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using kernels::Activation;

constexpr std::pair<Activation, double (*)(double)> kActivations[] = {
    {Activation::silu, reference::silu},
    {Activation::gelu, reference::gelu},
    {Activation::gelu_tanh, reference::gelu_tanh}};

// A few roundings of a factor in [0, 1], and tanh's 1e-7: relative to x, not to the result.
double bound(double x) { return 3e-7 * std::abs(x) + 1e-37; }

std::vector<float> activated(Activation kind, std::vector<float> row) {
  kernels::activate(kind, row);
  return row;
}

TEST(Activation, MatchesTheFormula) {
  for (const auto& [kind, formula] : kActivations) {
    std::vector<float> x = trial::noisy(trial::kSlowBuild ? 2'000 : 100'000, 1, 12.0);
    for (float value : {0.0f, -0.0f, 1e-30f, -1e-30f, 50.0f, -50.0f, 1e4f, -1e4f, 1e30f, -1e30f}) {
      x.push_back(value);
    }
    const std::vector<float> y = activated(kind, x);
    for (std::size_t n = 0; n < x.size(); ++n) {
      const auto value = static_cast<double>(x[n]);
      const double exact = std::abs(value) > 1e9 ? std::max(value, 0.0) : formula(value);
      ASSERT_NEAR(y[n], exact, bound(value)) << "at " << x[n];
    }
  }
}

TEST(Activation, PropagatesNaN) {
  for (const auto& [kind, formula] : kActivations) {
    EXPECT_TRUE(std::isnan(activated(kind, {trial::kNaN})[0]));
    EXPECT_EQ(activated(kind, {trial::kInfinity})[0], trial::kInfinity);
  }
}

TEST(Activation, TreatsEveryElementAlone) {
  for (const auto& [kind, formula] : kActivations) {
    const std::vector<float> x = trial::noisy(97, 2, 6.0);
    for (std::size_t size = 1; size <= 97; ++size) {
      std::vector<float> row(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(size));
      row.push_back(trial::kNaN);
      kernels::activate(kind, std::span(row).first(size));
      EXPECT_TRUE(std::isnan(row.back()));
      const std::vector<float> last = activated(kind, {x[size - 1]});
      EXPECT_EQ(row[size - 1], last[0]) << size;
    }
  }
}

TEST(Gate, IsTheActivationTimesTheOther) {
  for (const auto& [kind, formula] : kActivations) {
    for (Index size : {1, 2, 15, 16, 17, 33, 64, 97}) {
      const std::vector<float> gate = trial::noisy(size, 3, 6.0);
      const std::vector<float> up = trial::noisy(size, 4, 6.0);
      std::vector<float> expected = activated(kind, gate);
      for (std::size_t n = 0; n < up.size(); ++n) expected[n] *= up[n];
      std::vector<float> actual = gate;
      kernels::activate_gate(kind, actual, up);
      EXPECT_TRUE(trial::same_bits(expected, actual)) << size;
    }
  }
}

TEST(Gate, RefusesSizesThatDiffer) {
  std::vector<float> gate(4);
  EXPECT_THROW(kernels::activate_gate(Activation::silu, gate, std::vector<float>(5)),
               std::invalid_argument);
  EXPECT_THROW(kernels::activate_gate(Activation::silu, gate, {}), std::invalid_argument);
}

}  // namespace
