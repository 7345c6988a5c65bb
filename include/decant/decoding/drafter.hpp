// decant/decoding/drafter.hpp - who guesses tokens ahead, so that one step can verify several.
//
// A guess costs a row of a step and nothing else: what is taken has the distribution, and unless
// rejection is asked for the very tokens, of a run without guesses.
//
// Depends on  core/{error,types}.hpp, decoding/{candidates,history}.hpp
// Source      Leviathan et al. 2023, arXiv:2211.17192; prompt look-up: Saxena 2023,
//             github.com/apoorvumang/prompt-lookup-decoding
// Tested by   tests/decoding/speculative_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/history.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

namespace decant::inline v0::decoding {

// Laws     propose(history, most), most > 0, gives at most `most` tokens of the vocabulary that may
//          follow the history, valid until the next call; none is an answer too. The history is not
//          empty, and continues the one before but for guesses that did not come
template <class D>
concept Drafter = requires(D& drafter, const History& history, Index most) {
  { drafter.propose(history, most) } -> std::convertible_to<std::span<const Token>>;
};

// One that also tells from which distribution its guess number `at` was drawn, by ascending id, as
// rejection wants it. Of others a guess counts as the only one that they could have made.
template <class D>
concept DrafterWithDistribution = Drafter<D> && requires(const D& drafter, Index at) {
  { drafter.distribution(at) } -> std::convertible_to<std::span<const Candidate>>;
};

// Guesses nothing.
struct NoDrafts {
  std::span<const Token> propose(const History&, Index) const noexcept { return {}; }
};

namespace detail {

// visit(what followed) where the last tokens were there before: the longest of them first, and the
// latest place first, until visit() says true.
template <class F>
void visit_repeats(std::span<const Token> tokens, Index longest, Index shortest, F&& visit) {
  for (Index length = std::min(longest, std::ssize(tokens) - 1); length >= shortest; --length) {
    const std::span<const Token> last = tokens.last(static_cast<std::size_t>(length));
    for (Index at = std::ssize(tokens) - length - 1; at >= 0; --at) {
      const auto from = tokens.subspan(static_cast<std::size_t>(at));
      if (std::ranges::equal(from.first(last.size()), last) && visit(from.subspan(last.size()))) {
        return;
      }
    }
  }
}

}  // namespace detail

// Guesses that what followed the last tokens when they were there before follows them again. Pays
// where a text repeats its prompt: summaries, edits, code.
//
// Units    tokens
// Cost     the history is read once or a few times
struct NgramDrafter {
  Index most = 8;     // guesses at once
  Index longest = 4;  // last tokens that are looked for, then fewer
  Index shortest = 2;

  std::span<const Token> propose(const History& history, Index room) const {
    expects(most >= 0 && shortest >= 1 && longest >= shortest, "decoding::NgramDrafter: ", most,
            " guesses behind ", shortest, " to ", longest, " tokens");
    std::span<const Token> guesses;
    detail::visit_repeats(history.tokens, longest, shortest, [&](std::span<const Token> after) {
      guesses = after.first(std::min(after.size(), static_cast<std::size_t>(std::min(most, room))));
      return true;
    });
    return guesses;
  }
};

}  // namespace decant::inline v0::decoding
