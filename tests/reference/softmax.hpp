// tests/reference/softmax.hpp - softmax with its log-sum-exp, natural logarithm, in double.
//
// A row that sees nothing (no scores, or all of them -inf) has weights 0 and a log-sum-exp of
// -inf; the plain formula would give NaN from (-inf) - (-inf).
#pragma once

#include "reference/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace decant::reference {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

inline double log_sum_exp(std::span<const double> scores) {
  double maximum = kMinusInfinity;
  for (double score : scores) maximum = std::max(maximum, score);
  if (maximum == kMinusInfinity) return kMinusInfinity;
  double sum = 0;
  for (double score : scores) sum += std::exp(score - maximum);
  return maximum + std::log(sum);
}

inline Vector softmax(std::span<const double> scores) {
  const double total = log_sum_exp(scores);
  Vector weights(scores.size(), 0.0);
  if (total == kMinusInfinity) return weights;
  for (std::size_t i = 0; i < scores.size(); ++i) weights[i] = std::exp(scores[i] - total);
  return weights;
}

}  // namespace decant::reference
