// decant/kv/prefix_summary.hpp - the prefixes that a worker has cached, in a few bytes a page.
//
// A full page becomes one hash, of its tokens, all tokens before them and their namespace; so a
// worker can tell others what its prefix tree has cached without sending tokens. A summary is a
// hint: hashes may collide, and it may be old. A wrong hint costs time and changes no answer,
// because the tree that the prompt reaches compares tokens.
//
// Source      Kwon et al. 2023, "PagedAttention", arXiv:2309.06180; pages named by a chain of
//             hashes: vLLM, "Automatic prefix caching"
// Tested by   tests/kv/prefix_summary_test.cpp, against the tree itself
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/prefix.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_set>
#include <vector>

namespace decant::inline v0::kv {

namespace detail {

// The first hash of the chain of a namespace.
inline std::uint64_t hash_of(const CacheNamespace& space) noexcept {
  std::array<Token, 6> words{};
  std::size_t at = 0;
  for (std::uint64_t part : {space.model, space.adapter, space.tenant}) {
    words[at++] = static_cast<Token>(static_cast<std::uint32_t>(part));
    words[at++] = static_cast<Token>(static_cast<std::uint32_t>(part >> 32));
  }
  return TokenHash{}(0, words);
}

}  // namespace detail

// One hash for each full page of `tokens`: of the first page, of the first two, and so on.
//
// Errors   std::invalid_argument if page_tokens is not positive
inline std::vector<std::uint64_t> page_hashes(const CacheNamespace& space,
                                              std::span<const Token> tokens, Index page_tokens) {
  expects(page_tokens > 0, "kv::page_hashes: pages of ", page_tokens, " tokens");
  std::vector<std::uint64_t> hashes;
  std::uint64_t hash = detail::hash_of(space);
  const auto page = static_cast<std::size_t>(page_tokens);
  for (; tokens.size() >= page; tokens = tokens.subspan(page)) {
    hash = TokenHash{}(hash, tokens.first(page));
    hashes.push_back(hash);
  }
  return hashes;
}

// The set of pages that one worker has cached.
//
// Units    page_tokens counts tokens, as the pages of the worker's pool
// Errors   std::invalid_argument, std::bad_alloc; nothing changed then, unless a call says more
// Cost     memory for the hashes alone; matched O(pages of the prompt) on average
// Threads  as a standard container
class PrefixSummary {
 public:
  explicit PrefixSummary(Index page_tokens, std::span<const std::uint64_t> hashes = {})
      : page_tokens_(page_tokens), hashes_(hashes.begin(), hashes.end()) {
    expects(page_tokens > 0, "kv::PrefixSummary: pages of ", page_tokens, " tokens");
  }

  // The pages of a kv::PrefixTree.
  template <class Tree>
  static PrefixSummary of(const Tree& tree) {
    std::vector<std::uint64_t> hashes;
    for (const auto& entry : tree.entries()) {  // a page comes before those behind it
      const std::uint64_t before = entry.parent < 0
                                       ? detail::hash_of(entry.space)
                                       : hashes[static_cast<std::size_t>(entry.parent)];
      hashes.push_back(TokenHash{}(before, entry.tokens));
    }
    return PrefixSummary(tree.pool().page_tokens(), hashes);
  }

  Index page_tokens() const noexcept { return page_tokens_; }
  Index pages() const noexcept { return std::ssize(hashes_); }
  // In ascending order, for sending and comparing.
  std::vector<std::uint64_t> hashes() const {
    std::vector<std::uint64_t> sorted(hashes_.begin(), hashes_.end());
    std::ranges::sort(sorted);
    return sorted;
  }

  // How many tokens of a prompt with these page_hashes() the worker has cached.
  Index matched(std::span<const std::uint64_t> prompt) const {
    const auto cached = [this](std::uint64_t hash) { return hashes_.contains(hash); };
    return page_tokens_ * (std::ranges::find_if_not(prompt, cached) - prompt.begin());
  }
  // How many tokens of a prompt the tree would reuse: never the last, as PrefixTree::matched()
  // says.
  Index matched(const CacheNamespace& space, std::span<const Token> prompt) const {
    const Index held = matched(page_hashes(space, prompt, page_tokens_));
    return std::max<Index>(0, std::min(held, std::ssize(prompt) - 1));
  }

  // Adds the full pages of `tokens`, as after sending a prompt to the worker, before the worker
  // reports it. std::bad_alloc leaves the first of them.
  void insert(const CacheNamespace& space, std::span<const Token> tokens) {
    for (std::uint64_t hash : page_hashes(space, tokens, page_tokens_)) hashes_.insert(hash);
  }

  // The differences between two summaries, each ascending.
  struct Change {
    std::vector<std::uint64_t> cached;
    std::vector<std::uint64_t> dropped;
  };
  Change since(const PrefixSummary& older) const {
    expects(page_tokens_ == older.page_tokens_, "kv::PrefixSummary::since: pages of ", page_tokens_,
            " tokens, and of ", older.page_tokens_);
    const auto now = hashes(), then = older.hashes();
    Change change;
    std::ranges::set_difference(now, then, std::back_inserter(change.cached));
    std::ranges::set_difference(then, now, std::back_inserter(change.dropped));
    return change;
  }
  // Pages may be present or absent already. Pages that were inserted here and never cached by the
  // worker stay: send a complete summary now and then. std::bad_alloc leaves a part applied.
  void apply(const Change& change) {
    for (std::uint64_t hash : change.dropped) hashes_.erase(hash);
    hashes_.insert(change.cached.begin(), change.cached.end());
  }

  friend bool operator==(const PrefixSummary&, const PrefixSummary&) = default;

 private:
  Index page_tokens_;
  std::unordered_set<std::uint64_t> hashes_;
};

}  // namespace decant::inline v0::kv
