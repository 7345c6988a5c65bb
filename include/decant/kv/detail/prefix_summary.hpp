// decant/kv/detail/prefix_summary.hpp - defines kv/prefix_summary.hpp: hashes of pages.
//
// Tested by   tests/kv/prefix_summary_test.cpp, against the tree itself
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/kv/prefix_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

namespace detail {

DECANT_INLINE std::uint64_t hash_of(const CacheNamespace& space) noexcept {
  std::array<Token, 6> words{};
  std::size_t at = 0;
  for (std::uint64_t part : {space.model, space.adapter, space.tenant}) {
    words[at++] = static_cast<Token>(static_cast<std::uint32_t>(part));
    words[at++] = static_cast<Token>(static_cast<std::uint32_t>(part >> 32));
  }
  return TokenHash{}(0, words);
}

}  // namespace detail

DECANT_INLINE std::vector<std::uint64_t> page_hashes(const CacheNamespace& space,
                                                     std::span<const Token> tokens,
                                                     Index page_tokens) {
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

DECANT_INLINE PrefixSummary::PrefixSummary(Index page_tokens, std::span<const std::uint64_t> hashes)
    : page_tokens_(page_tokens), hashes_(hashes.begin(), hashes.end()) {
  expects(page_tokens > 0, "kv::PrefixSummary: pages of ", page_tokens, " tokens");
}

DECANT_INLINE std::vector<std::uint64_t> PrefixSummary::hashes() const {
  std::vector<std::uint64_t> sorted(hashes_.begin(), hashes_.end());
  std::ranges::sort(sorted);
  return sorted;
}

DECANT_INLINE Index PrefixSummary::matched(std::span<const std::uint64_t> prompt) const {
  const auto cached = [this](std::uint64_t hash) { return hashes_.contains(hash); };
  return page_tokens_ * (std::ranges::find_if_not(prompt, cached) - prompt.begin());
}

DECANT_INLINE Index PrefixSummary::matched(const CacheNamespace& space,
                                           std::span<const Token> prompt) const {
  const Index held = matched(page_hashes(space, prompt, page_tokens_));
  return std::max<Index>(0, std::min(held, std::ssize(prompt) - 1));
}

DECANT_INLINE void PrefixSummary::insert(const CacheNamespace& space,
                                         std::span<const Token> tokens) {
  for (std::uint64_t hash : page_hashes(space, tokens, page_tokens_)) hashes_.insert(hash);
}

DECANT_INLINE PrefixSummary::Change PrefixSummary::since(const PrefixSummary& older) const {
  expects(page_tokens_ == older.page_tokens_, "kv::PrefixSummary::since: pages of ", page_tokens_,
          " tokens, and of ", older.page_tokens_);
  const auto now = hashes(), then = older.hashes();
  Change change;
  std::ranges::set_difference(now, then, std::back_inserter(change.cached));
  std::ranges::set_difference(then, now, std::back_inserter(change.dropped));
  return change;
}

DECANT_INLINE void PrefixSummary::apply(const Change& change) {
  for (std::uint64_t hash : change.dropped) hashes_.erase(hash);
  hashes_.insert(change.cached.begin(), change.cached.end());
}

}  // namespace decant::inline DECANT_ABI::kv
