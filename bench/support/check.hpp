// bench/support/check.hpp - what is wrong is not timed: the program ends with one sentence.
//
// Depends on  tests/reference/matrix.hpp
#pragma once

#include "reference/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace decant::bench {

inline void require(bool condition, std::string_view sentence) {
  if (condition) return;
  std::cerr << "bench: " << sentence << '\n';
  std::exit(1);
}

// Largest difference from the oracle against the largest number of the oracle.
template <class Result, class Oracle>
void require_near(const Result& result, const Oracle& oracle, double tolerance,
                  std::string_view what) {
  double largest = 0;
  for (const auto number : oracle) largest = std::max(largest, std::abs(double{number}));
  const double difference = reference::max_difference(result, oracle);
  if (difference <= tolerance * largest) return;  // false for NaN
  std::cerr << "bench: " << what << " differs from its oracle by " << difference
            << ", the largest number being " << largest << '\n';
  std::exit(1);
}

}  // namespace decant::bench
