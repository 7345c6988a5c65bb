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

#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>

#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// The probability of a token among candidates by ascending id; 0 if it is none of them.
double probability_of(std::span<const Candidate> candidates, Token token);

// max(0, target - drawn_from), by ascending id, not normalised. An empty drawn_from stands for
// probability 1 of `draft`.
std::vector<Candidate> residual(std::span<const Candidate> target,
                                std::span<const Candidate> drawn_from, Token draft);

// The token to take: the draft, or another.
//
// Shape    both distributions by ascending id, summing to 1; an empty drawn_from stands for
//          probability 1 of `draft`
// Units    u in [0, 1), independent of what drew the draft
// Errors   std::invalid_argument if drawn_from gives `draft` no probability
Token verify(std::span<const Candidate> target, std::span<const Candidate> drawn_from, Token draft,
             double u);

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/rejection.hpp>
#endif
