// bench/support/check.hpp - a wrong result is not timed: the program ends with one sentence.
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

// The largest difference from the reference, relative to the largest value of the reference.
template <class Result, class Oracle>
void require_near(const Result& result, const Oracle& oracle, double tolerance,
                  std::string_view what) {
  double largest = 0;
  for (const auto number : oracle) largest = std::max(largest, std::abs(double{number}));
  const double difference = reference::max_difference(result, oracle);
  if (difference <= tolerance * largest) return;  // false for NaN
  std::cerr << "bench: " << what << " differs from its reference by " << difference
            << ", whose largest value is " << largest << '\n';
  std::exit(1);
}

}  // namespace decant::bench
