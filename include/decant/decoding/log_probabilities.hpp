// decant/decoding/log_probabilities.hpp - log-probabilities of the token that was taken, and of the
// most probable ones.
//
// Tested by   tests/decoding/log_probabilities_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/logits.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// Units    value: the natural logarithm of a probability
struct LogProbability {
  Token token = 0;
  double value = 0.0;

  friend bool operator==(const LogProbability&, const LogProbability&) = default;
};

// At one position: the token that was taken, and the most probable ones in descending order.
struct LogProbabilities {
  LogProbability taken;
  std::vector<LogProbability> top;
};

namespace detail {

// log(sum(exp(logits))): a logit minus this is a log-probability.
inline double log_sum(std::span<const float> logits) {
  const double highest = logits[static_cast<std::size_t>(argmax(logits))];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - highest);
  return highest + std::log(sum);
}

// The most probable tokens of a row whose log_sum() is `sum`.
inline std::vector<LogProbability> most_probable(std::span<const float> logits, Index count,
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

// The most probable tokens of softmax(logits), in descending order, equal ones by the lower id.
//
// Errors   std::invalid_argument (a negative count), BadLogits, NoCandidate
// Cost     three passes, one of them O(vocabulary) exponentials; memory for `count` of them
inline std::vector<LogProbability> top_log_probabilities(std::span<const float> logits,
                                                         Index count) {
  return detail::most_probable(logits, count, detail::log_sum(logits));
}

// The same, and the log-probability of the token that was taken.
//
// Errors   std::invalid_argument (a token outside the row, a negative count), BadLogits,
//          NoCandidate
// Cost     as above
inline LogProbabilities log_probabilities(std::span<const float> logits, Token taken, Index top) {
  expects(taken >= 0 && taken < std::ssize(logits), "decoding::log_probabilities: token ", taken,
          " of a row of ", logits.size());
  const double sum = detail::log_sum(logits);
  return {.taken = {taken, logits[static_cast<std::size_t>(taken)] - sum},
          .top = detail::most_probable(logits, top, sum)};
}

}  // namespace decant::inline v0::decoding
