// decant/decoding/detail/log_probabilities.hpp - defines decoding/log_probabilities.hpp.
//
// Tested by   tests/decoding/log_probabilities_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/decoding/log_probabilities.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

namespace detail {

// log(sum(exp(logits))): a logit minus this is a log-probability.
DECANT_INLINE double log_sum(std::span<const float> logits) {
  const double highest = logits[static_cast<std::size_t>(argmax(logits))];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - highest);
  return highest + std::log(sum);
}

// The most probable tokens of a row whose log_sum() is `sum`.
DECANT_INLINE std::vector<LogProbability> most_probable(std::span<const float> logits, Index count,
                                                        double sum) {
  expects(count >= 0, "decoding::top_log_probabilities: count is ", count);
  const auto before = [](const LogProbability& a, const LogProbability& b) {
    return a.value != b.value ? a.value > b.value : a.token < b.token;
  };
  std::vector<LogProbability> top;
  top.reserve(std::min(logits.size(), static_cast<std::size_t>(count)));
  for (Token token = 0; token < std::ssize(logits) && count > 0; ++token) {
    const LogProbability next = {token, logits[static_cast<std::size_t>(token)] - sum};
    offer(top, static_cast<std::size_t>(count), next, before);
  }
  std::ranges::sort(top, before);
  return top;
}

}  // namespace detail

DECANT_INLINE std::vector<LogProbability> top_log_probabilities(std::span<const float> logits,
                                                                Index count) {
  return detail::most_probable(logits, count, detail::log_sum(logits));
}

DECANT_INLINE LogProbabilities log_probabilities(std::span<const float> logits, Token taken,
                                                 Index top) {
  expects(taken >= 0 && taken < std::ssize(logits), "decoding::log_probabilities: token ", taken,
          " of a row of ", logits.size());
  const double sum = detail::log_sum(logits);
  return {.taken = {taken, logits[static_cast<std::size_t>(taken)] - sum},
          .top = detail::most_probable(logits, top, sum)};
}

}  // namespace decant::inline DECANT_ABI::decoding
