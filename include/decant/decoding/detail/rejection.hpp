// decant/decoding/detail/rejection.hpp - defines decoding/rejection.hpp.
//
// Tested by   tests/decoding/rejection_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/decoding/rejection.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

DECANT_INLINE double probability_of(std::span<const Candidate> candidates, Token token) {
  const auto found = std::ranges::lower_bound(candidates, token, {}, &Candidate::token);
  return found != candidates.end() && found->token == token ? found->probability : 0.0;
}

DECANT_INLINE std::vector<Candidate> residual(std::span<const Candidate> target,
                                              std::span<const Candidate> drawn_from, Token draft) {
  std::vector<Candidate> rest;
  for (const Candidate& candidate : target) {
    const double drafted = drawn_from.empty() ? (candidate.token == draft ? 1.0 : 0.0)
                                              : probability_of(drawn_from, candidate.token);
    if (candidate.probability > drafted) {
      rest.push_back({candidate.token, candidate.probability - drafted});
    }
  }
  return rest;
}

DECANT_INLINE Token verify(std::span<const Candidate> target, std::span<const Candidate> drawn_from,
                           Token draft, double u) {
  const double q = drawn_from.empty() ? 1.0 : probability_of(drawn_from, draft);
  expects(q > 0, "decoding::verify: draft token ", draft, " is one that its drafter never draws");
  const double taken = std::min(1.0, probability_of(target, draft) / q);
  if (u < taken) return draft;
  const std::vector<Candidate> rest = residual(target, drawn_from, draft);
  if (rest.empty()) return draft;  // the distributions are equal but for rounding
  // After a rejection, u is uniform in [taken, 1): scaled to [0, 1), it is the second random
  // number.
  constexpr double kBelowOne = 1.0 - std::numeric_limits<double>::epsilon() / 2;
  return draw(rest, std::min((u - taken) / (1.0 - taken), kBelowOne));
}

}  // namespace decant::inline DECANT_ABI::decoding
