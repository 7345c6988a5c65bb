// tests/reference/activation.hpp - SiLU and the two GELUs, in double.
//
// Source      Elfwing et al. 2017, arXiv:1702.03118 (SiLU); Hendrycks and Gimpel 2016,
//             arXiv:1606.08415 (GELU and its tanh form)
#pragma once

#include <cmath>

namespace decant::reference {

inline double silu(double x) { return x / (1 + std::exp(-x)); }

// x times the probability that a standard normal number is below x.
inline double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

inline double gelu_tanh(double x) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  return 0.5 * x * (1 + std::tanh(std::sqrt(kTwoOverPi) * (x + 0.044715 * x * x * x)));
}

}  // namespace decant::reference
