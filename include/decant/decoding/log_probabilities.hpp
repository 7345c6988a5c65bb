// decant/decoding/log_probabilities.hpp - how probable a token was, and which were the most.
//
// Depends on  core/{error,types}.hpp, decoding/candidates.hpp
// Tested by   tests/decoding/log_probabilities_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// Units    value: the natural logarithm of a probability
struct LogProbability {
  Token token = 0;
  double value = 0.0;

  friend bool operator==(const LogProbability&, const LogProbability&) = default;
};

// Of one place: the token that was taken, and the most probable ones in descending order.
struct LogProbabilities {
  LogProbability taken;
  std::vector<LogProbability> top;
};

// Those of softmax(logits), equal ones by the lower id.
//
// Errors   std::invalid_argument (a token outside the row, a negative count), BadLogits,
// NoCandidate Cost     one pass and O(vocabulary) exponentials; memory for `top` and the row's ids
inline LogProbabilities log_probabilities(std::span<const float> logits, Token taken, Index top) {
  const Index vocabulary = std::ssize(logits);
  expects(taken >= 0 && taken < vocabulary, "decoding::log_probabilities: token ", taken,
          " of a row of ", vocabulary);
  expects(top >= 0, "decoding::log_probabilities: the ", top, " most probable tokens");
  const double highest = logits[static_cast<std::size_t>(argmax(logits))];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - highest);
  const auto of = [&](Token token) {
    return LogProbability{token, logits[static_cast<std::size_t>(token)] - highest - std::log(sum)};
  };
  LogProbabilities result{.taken = of(taken), .top = {}};
  result.top.reserve(logits.size());
  for (Token token = 0; token < vocabulary; ++token) result.top.push_back(of(token));
  const auto end = result.top.begin() + std::min(top, vocabulary);
  std::partial_sort(result.top.begin(), end, result.top.end(),
                    [](const LogProbability& a, const LogProbability& b) {
                      return a.value != b.value ? a.value > b.value : a.token < b.token;
                    });
  result.top.erase(end, result.top.end());
  return result;
}

}  // namespace decant::inline v0::decoding
