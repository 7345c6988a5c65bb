// decant/decoding/log_probabilities.hpp - log-probabilities of the token that was taken, and of the
// most probable ones.
//
// Tested by   tests/decoding/log_probabilities_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/logits.hpp>

#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

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

// The most probable tokens of softmax(logits), in descending order, equal ones by the lower id.
//
// Errors   std::invalid_argument (a negative count), BadLogits, NoCandidate
// Cost     three passes, one of them O(vocabulary) exponentials; memory for `count` of them
std::vector<LogProbability> top_log_probabilities(std::span<const float> logits, Index count);

// The same, and the log-probability of the token that was taken.
//
// Errors   std::invalid_argument (a token outside the row, a negative count), BadLogits,
//          NoCandidate
// Cost     as above
LogProbabilities log_probabilities(std::span<const float> logits, Token taken, Index top);

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/log_probabilities.hpp>
#endif
