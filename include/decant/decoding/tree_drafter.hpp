// decant/decoding/tree_drafter.hpp - guesses in several ways at once, of which one step verifies
// all.
//
// A tree of guesses is verified as the paths from its root to its leaves, each on a fork of the
// store. A mask over one store would save the rows that paths have in common, but it would put keys
// into other lanes than their positions, and so change the order of sums, and bits; and where
// weights are what a step waits for, rows cost little.
//
// Depends on  decoding/{drafter,history}.hpp
// Source      Miao et al. 2023, "SpecInfer", arXiv:2305.09781 (trees of guesses)
// Tested by   tests/decoding/tree_drafter_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/history.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// Laws     propose_branches(history, most), most > 0, gives ways in which the history may go on,
// the
//          likeliest first, each of tokens of the vocabulary; of what is longer than `most`, and of
//          paths that a step has no rows for, only the beginning counts. Valid until the next call
template <class D>
concept TreeDrafter = requires(D& drafter, const History& history, Index most) {
  {
    drafter.propose_branches(history, most)
  } -> std::convertible_to<std::span<const std::vector<Token>>>;
};

// A store of which a copy that shares memory can be made.
template <class S>
concept Forkable = requires(const S& store) {
  { store.fork() } -> std::same_as<S>;
};

// What generate() takes for a kind of store: guesses in one way, or in several on forks.
template <class D, class S>
concept DrafterFor = Drafter<D> || (TreeDrafter<D> && Forkable<S>);

// Guesses that one of the things that followed the last tokens before follows them again.
//
// Units    tokens
// Cost     the history is read a few times
class TreeNgramDrafter {
 public:
  struct Options {
    Index branches = 3;  // at once, which differ in their first token
    Index most = 4;      // guesses of each
    Index longest = 4;   // last tokens that are looked for, then fewer
    Index shortest = 1;
  };

  // Errors   std::invalid_argument naming the option and its value
  TreeNgramDrafter() : TreeNgramDrafter(Options{}) {}
  explicit TreeNgramDrafter(const Options& options) : options_(options) {
    expects(options.branches >= 1, "decoding::TreeNgramDrafter: branches is ", options.branches);
    expects(options.most >= 1, "decoding::TreeNgramDrafter: most is ", options.most);
    expects(options.shortest >= 1 && options.longest >= options.shortest,
            "decoding::TreeNgramDrafter: last tokens from ", options.shortest, " to ",
            options.longest);
  }

  std::span<const std::vector<Token>> propose_branches(const History& history, Index most) {
    paths_.clear();
    const auto length = static_cast<std::size_t>(std::min(options_.most, most));
    detail::visit_repeats(history.tokens, options_.longest, options_.shortest,
                          [&](std::span<const Token> after) {
                            const auto path = after.first(std::min(after.size(), length));
                            if (is_new(path.front())) paths_.emplace_back(path.begin(), path.end());
                            return std::ssize(paths_) == options_.branches;
                          });
    return paths_;
  }

 private:
  bool is_new(Token first) const {
    return std::ranges::none_of(paths_, [&](const auto& path) { return path.front() == first; });
  }

  Options options_;
  std::vector<std::vector<Token>> paths_;
};

}  // namespace decant::inline v0::decoding
