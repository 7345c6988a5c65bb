// decant/decoding/rejection.hpp - verification by rejection: drafts are accepted just so often that
// tokens have the distribution of the target.
//
// A draft x drawn from q is accepted with probability min(1, p(x) / q(x)); if it is rejected, the
// token is drawn from max(0, p - q), normalised. Tokens then follow p exactly, but are not those of
// a run without drafts, as they are with verification by agreement.
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

// The probability of a token among candidates by ascending id; 0 if it is none of them.
inline double probability_of(std::span<const Candidate> candidates, Token token) {
  const auto found = std::ranges::lower_bound(candidates, token, {}, &Candidate::token);
  return found != candidates.end() && found->token == token ? found->probability : 0.0;
}

// max(0, target - drawn_from), by ascending id, not normalised. An empty drawn_from stands for
// probability 1 of `draft`.
inline std::vector<Candidate> residual(std::span<const Candidate> target,
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

// The token to take: the draft, or another.
//
// Shape    both distributions by ascending id, summing to 1; an empty drawn_from stands for
//          probability 1 of `draft`
// Units    u in [0, 1), independent of what drew the draft
// Errors   std::invalid_argument if drawn_from gives `draft` no probability
inline Token verify(std::span<const Candidate> target, std::span<const Candidate> drawn_from,
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

}  // namespace decant::inline v0::decoding
