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

#include <decant/core/types.hpp>
#include <decant/kv/prefix.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_set>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

namespace detail {

// The first hash of the chain of a namespace.
std::uint64_t hash_of(const CacheNamespace& space) noexcept;

}  // namespace detail

// One hash for each full page of `tokens`: of the first page, of the first two, and so on.
//
// Errors   std::invalid_argument if page_tokens is not positive
std::vector<std::uint64_t> page_hashes(const CacheNamespace& space, std::span<const Token> tokens,
                                       Index page_tokens);

// The set of pages that one worker has cached.
//
// Units    page_tokens counts tokens, as the pages of the worker's pool
// Errors   std::invalid_argument, std::bad_alloc; nothing changed then, unless a call says more
// Cost     memory for the hashes alone; matched O(pages of the prompt) on average
// Threads  as a standard container
class PrefixSummary {
 public:
  explicit PrefixSummary(Index page_tokens, std::span<const std::uint64_t> hashes = {});

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
  std::vector<std::uint64_t> hashes() const;

  // How many tokens of a prompt with these page_hashes() the worker has cached.
  Index matched(std::span<const std::uint64_t> prompt) const;
  // How many tokens of a prompt the tree would reuse: never the last, as PrefixTree::matched()
  // says.
  Index matched(const CacheNamespace& space, std::span<const Token> prompt) const;

  // Adds the full pages of `tokens`, as after sending a prompt to the worker, before the worker
  // reports it. std::bad_alloc leaves the first of them.
  void insert(const CacheNamespace& space, std::span<const Token> tokens);

  // The differences between two summaries, each ascending.
  struct Change {
    std::vector<std::uint64_t> cached;
    std::vector<std::uint64_t> dropped;
  };
  Change since(const PrefixSummary& older) const;
  // Pages may be present or absent already. Pages that were inserted here and never cached by the
  // worker stay: send a complete summary now and then. std::bad_alloc leaves a part applied.
  void apply(const Change& change);

  friend bool operator==(const PrefixSummary&, const PrefixSummary&) = default;

 private:
  Index page_tokens_;
  std::unordered_set<std::uint64_t> hashes_;
};

}  // namespace decant::inline DECANT_ABI::kv

#if !defined(DECANT_COMPILED)
#include <decant/kv/detail/prefix_summary.hpp>
#endif
