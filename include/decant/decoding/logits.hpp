// decant/decoding/logits.hpp - what a row of logits must be, and its best token.
//
// Tested by   tests/decoding/{sampler,log_probabilities}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// Every token of a row of logits is banned.
class NoCandidate : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A logit is NaN or +infinity.
class BadLogits : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

// The highest of some logits, and whether none is NaN or +infinity.
struct Survey {
  float highest = 0;
  bool valid = true;
};

// Works in lanes, which a compiler puts into registers.
inline Survey survey(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> highest;
  std::array<int, kLanes> refused{};
  highest.fill(-std::numeric_limits<float>::infinity());
  const auto look = [&](std::size_t lane, float logit) {
    highest[lane] = logit > highest[lane] ? logit : highest[lane];
    refused[lane] |= !(logit <= std::numeric_limits<float>::max());
  };
  std::size_t at = 0;
  for (; at + kLanes <= logits.size(); at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) look(lane, logits[at + lane]);
  }
  for (; at < logits.size(); ++at) look(0, logits[at]);
  return {std::ranges::max(highest), std::ranges::max(refused) == 0};
}

// Adds `next` to `first`, the `most` first elements in the order before(), if it belongs there.
// Once there are `most` of them they are a heap with the last of them in front.
template <class T, class Before>
void offer(std::vector<T>& first, std::size_t most, const T& next, const Before& before) {
  if (first.size() < most) {
    first.push_back(next);
    if (first.size() == most) std::ranges::make_heap(first, before);
  } else if (most > 0 && before(next, first.front())) {
    std::ranges::pop_heap(first, before);
    first.back() = next;
    std::ranges::push_heap(first, before);
  }
}

}  // namespace detail

// The token of the highest logit, the lower id of equal ones. -infinity bans a token.
//
// Errors   BadLogits naming the first logit that is NaN or +infinity, NoCandidate
// Cost     one pass at the speed of memory
inline Token argmax(std::span<const float> logits) {
  constexpr std::size_t kPart = 4096;
  float highest = -std::numeric_limits<float>::infinity();
  std::span<const float> best;
  for (std::size_t at = 0; at < logits.size(); at += kPart) {
    const auto part = logits.subspan(at, std::min(kPart, logits.size() - at));
    const detail::Survey found = detail::survey(part);
    for (std::size_t n = 0; !found.valid && n < part.size(); ++n) {
      expects<BadLogits>(part[n] <= std::numeric_limits<float>::max(),
                         "decoding: the logit of token ", at + n, " is ", part[n]);
    }
    if (found.highest > highest) {
      highest = found.highest;
      best = part;
    }
  }
  expects<NoCandidate>(!best.empty(), "decoding: no candidate is left, all ", logits.size(),
                       " tokens are banned");
  const float* const place = std::find(best.data(), best.data() + best.size(), highest);
  return static_cast<Token>(place - logits.data());
}

}  // namespace decant::inline DECANT_ABI::decoding
