// decant/decoding/rejection.hpp - a guess is taken as often as two distributions allow, so that
// what is taken has the first one's.
//
// A guess x drawn from q is taken with probability min(1, p(x) / q(x)); where it is not, the token
// is drawn from what p has more than q. Tokens then follow p exactly, but are not those of a run
// without guesses, as they are where a guess counts for as long as it agrees.
//
// Source      Leviathan et al. 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318
// Tested by   tests/decoding/rejection_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// The probability of a token among candidates by ascending id; 0 where it is none of them.
inline double probability_of(std::span<const Candidate> candidates, Token token) {
  const auto found = std::ranges::lower_bound(candidates, token, {}, &Candidate::token);
  return found != candidates.end() && found->token == token ? found->probability : 0.0;
}

// What target has more than draft, by ascending id, not normalised. Where draft is empty it is all
// on `guess`.
inline std::vector<Candidate> residual(std::span<const Candidate> target,
                                       std::span<const Candidate> draft, Token guess) {
  std::vector<Candidate> rest;
  for (const Candidate& candidate : target) {
    const double guessed = draft.empty() ? (candidate.token == guess ? 1.0 : 0.0)
                                         : probability_of(draft, candidate.token);
    if (candidate.probability > guessed) {
      rest.push_back({candidate.token, candidate.probability - guessed});
    }
  }
  return rest;
}

// The token that is taken: the guess, or another.
//
// Shape    both distributions by ascending id, summing to 1; an empty draft is all on `guess`
// Units    u in [0, 1), independent of what drew the guess
// Errors   std::invalid_argument where the draft could not have given the guess
inline Token verify(std::span<const Candidate> target, std::span<const Candidate> draft,
                    Token guess, double u) {
  const double q = draft.empty() ? 1.0 : probability_of(draft, guess);
  expects(q > 0, "decoding::verify: a guess of token ", guess, ", which its drafter never draws");
  const double taken = std::min(1.0, probability_of(target, guess) / q);
  if (u < taken) return guess;
  const std::vector<Candidate> rest = residual(target, draft, guess);
  if (rest.empty()) return guess;  // the distributions are one but for rounding
  // Of those u that reject, each is as likely: stretched, they are the second random number.
  constexpr double kBelowOne = 1.0 - std::numeric_limits<double>::epsilon() / 2;
  return draw(rest, std::min((u - taken) / (1.0 - taken), kBelowOne));
}

}  // namespace decant::inline v0::decoding
