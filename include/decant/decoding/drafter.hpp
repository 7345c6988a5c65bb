// decant/decoding/drafter.hpp - drafters for speculative decoding: what proposes draft tokens, so
// that one step can verify several.
//
// A draft costs a row of a step and nothing else: accepted tokens are those of a run without drafts
// or, under verification by rejection, have their distribution.
//
// A tree of drafts is verified as the branches from its root to its leaves, each on a fork of the
// store. A mask over one store would save the rows that branches have in common, but it would put
// keys into other lanes than those of their positions, and so change the order of sums, and bits;
// and rows cost little in a step that is bound by reading weights.
//
// Source      Leviathan et al. 2023, arXiv:2211.17192; prompt look-up: Saxena 2023,
//             github.com/apoorvumang/prompt-lookup-decoding; trees: Miao et al. 2023, "SpecInfer",
//             arXiv:2305.09781
// Tested by   tests/decoding/{speculative,tree_drafter}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/penalties.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// Laws     propose(history, most), most > 0, returns at most `most` tokens of the vocabulary that
//          may follow the history, valid until the next call; none is allowed. The history is not
//          empty, and within a run it continues that of the call before
template <class D>
concept Drafter = requires(D& drafter, const History& history, Index most) {
  { drafter.propose(history, most) } -> std::convertible_to<std::span<const Token>>;
};

// A drafter that also gives the distribution from which its draft number `at` was drawn, by
// ascending id, as verification by rejection needs it. A draft of any other drafter counts as drawn
// with probability 1.
template <class D>
concept DrafterWithDistribution = Drafter<D> && requires(const D& drafter, Index at) {
  { drafter.distribution(at) } -> std::convertible_to<std::span<const Candidate>>;
};

using Branches = std::vector<std::vector<Token>>;

// Laws     propose_branches(history, most), most > 0, returns branches that may follow the history,
//          the likeliest first, of tokens of the vocabulary, valid until the next call. A branch is
//          cut to `most` tokens and to the rows that the step has for it
template <class D>
concept TreeDrafter = requires(D& drafter, const History& history, Index most) {
  {
    drafter.propose_branches(history, most)
  } -> std::convertible_to<std::span<const std::vector<Token>>>;
};

// A store that can be forked: the fork shares its memory.
template <class S>
concept Forkable = requires(const S& store) {
  { store.fork() } -> std::same_as<S>;
};

// What generate() takes as a drafter: one branch of drafts for any store, several for a store with
// forks.
template <class D, class S>
concept DrafterFor = Drafter<D> || (TreeDrafter<D> && Forkable<S>);

namespace detail {

using Propose = FunctionRef<void(const History&, Index most, Branches&)>;

// A borrowed drafter of any kind, for one run.
struct Drafting {
  Propose propose;
  FunctionRef<std::span<const Candidate>(Index at)> distribution;
  bool tree = false;
};

// Replaces `branches` by what a drafter proposes.
template <bool kTree, class D>
void propose(D& drafter, const History& history, Index most, Branches& branches) {
  if constexpr (kTree) {
    const std::span<const std::vector<Token>> found = drafter.propose_branches(history, most);
    branches.assign(found.begin(), found.end());
    for (std::vector<Token>& branch : branches) {
      branch.resize(std::min(branch.size(), static_cast<std::size_t>(most)));
    }
  } else {
    const std::span<const Token> found = drafter.propose(history, most);
    branches.assign(1, {found.begin(), found.end()});
  }
}

// Ends each branch before the first token that a model of this vocabulary does not know.
inline void cut_unknown(Branches& branches, Index vocabulary) {
  for (std::vector<Token>& branch : branches) {
    branch.erase(std::ranges::find_if(branch, [&](Token token) { return token >= vocabulary; }),
                 branch.end());
  }
}

// Calls visit(tokens that followed) for each earlier occurrence of the last tokens, the longest
// matches first and of equal ones the latest, until visit() returns true.
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

// Proposes nothing.
struct NoDrafts {
  std::span<const Token> propose(const History&, Index) const noexcept { return {}; }
};

// Proposes what followed the last tokens when they occurred before. Pays if a text repeats its
// prompt: summaries, edits, code.
//
// Units    tokens
// Errors   std::invalid_argument naming the members, from propose()
// Cost     reads the history once for each length of match that is tried
struct NgramDrafter {
  Index most = 8;     // drafts at once
  Index longest = 4;  // match of last tokens that is tried first, then shorter ones
  Index shortest = 2;

  std::span<const Token> propose(const History& history, Index room) const {
    expects(most >= 0 && shortest >= 1 && longest >= shortest, "decoding::NgramDrafter: most is ",
            most, ", shortest ", shortest, ", longest ", longest);
    std::span<const Token> drafts;
    detail::visit_repeats(history.tokens, longest, shortest, [&](std::span<const Token> after) {
      drafts = after.first(std::min(after.size(), static_cast<std::size_t>(std::min(most, room))));
      return true;
    });
    return drafts;
  }
};

// Proposes the several continuations that followed the last tokens when they occurred before.
//
// Units    tokens
// Cost     reads the history once for each length of match that is tried
class TreeNgramDrafter {
 public:
  struct Options {
    Index branches = 3;  // at once, which differ in their first token
    Index most = 4;      // drafts of each
    Index longest = 4;   // match of last tokens that is tried first, then shorter ones
    Index shortest = 1;
  };

  // Errors   std::invalid_argument naming the option and its value
  TreeNgramDrafter() : TreeNgramDrafter(Options{}) {}
  explicit TreeNgramDrafter(const Options& options) : options_(options) {
    expects(options.branches >= 1, "decoding::TreeNgramDrafter: branches is ", options.branches);
    expects(options.most >= 1, "decoding::TreeNgramDrafter: most is ", options.most);
    expects(options.shortest >= 1 && options.longest >= options.shortest,
            "decoding::TreeNgramDrafter: shortest is ", options.shortest, ", longest ",
            options.longest);
  }

  std::span<const std::vector<Token>> propose_branches(const History& history, Index most) {
    branches_.clear();
    const auto length = static_cast<std::size_t>(std::min(options_.most, most));
    const auto visit = [&](std::span<const Token> after) {
      const auto branch = after.first(std::min(after.size(), length));
      if (is_new(branch.front())) branches_.emplace_back(branch.begin(), branch.end());
      return std::ssize(branches_) == options_.branches;
    };
    detail::visit_repeats(history.tokens, options_.longest, options_.shortest, visit);
    return branches_;
  }

 private:
  bool is_new(Token first) const {
    return std::ranges::none_of(branches_,
                                [&](const auto& branch) { return branch.front() == first; });
  }

  Options options_;
  Branches branches_;
};

}  // namespace decant::inline DECANT_ABI::decoding
