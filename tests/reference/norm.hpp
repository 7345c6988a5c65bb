// tests/reference/norm.hpp - the two norms, in double.
//
// Source      Zhang and Sennrich 2019, arXiv:1910.07467 (RMS); Ba et al. 2016,
//             arXiv:1607.06450 (layer)
#pragma once

#include "reference/matrix.hpp"

#include <cmath>
#include <span>

namespace decant::reference {

// Shape    weight [n]; bias [n], or empty for none
struct NormWeights {
  Vector weight;
  Vector bias;

  bool empty() const { return weight.empty(); }
};

// y[i] = weight[i] * x[i] / sqrt(mean of x^2 + epsilon)
inline Vector rms_norm(std::span<const double> x, std::span<const double> weight, double epsilon) {
  const double mean_square = dot(x, x) / static_cast<double>(x.size());
  Vector y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = weight[i] * x[i] / std::sqrt(mean_square + epsilon);
  }
  return y;
}

// y[i] = weight[i] * (x[i] - mean) / sqrt(mean of (x - mean)^2 + epsilon) + bias[i]
inline Vector layer_norm(std::span<const double> x, const NormWeights& norm, double epsilon) {
  const auto count = static_cast<double>(x.size());
  double mean = 0;
  for (double value : x) mean += value / count;
  double variance = 0;
  for (double value : x) variance += (value - mean) * (value - mean) / count;
  Vector y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = norm.weight[i] * (x[i] - mean) / std::sqrt(variance + epsilon);
    if (!norm.bias.empty()) y[i] += norm.bias[i];
  }
  return y;
}

}  // namespace decant::reference
