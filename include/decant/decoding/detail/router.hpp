// decant/decoding/detail/router.hpp - defines decoding/router.hpp.
//
// Tested by   tests/decoding/router_test.cpp; measured by bench/decoding/routing_bench.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/decoding/router.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

namespace detail {

// The work of each replica, in tokens.
DECANT_INLINE std::vector<Index> works(std::span<const Replica> replicas) {
  std::vector<Index> works;
  for (const Replica& replica : replicas) {
    const auto count = [&works](Index tokens, const char* name) {
      expects(tokens >= 0, "decoding::route: ", name, " of replica ", works.size(), " is ", tokens);
    };
    count(replica.waiting_tokens, "waiting_tokens");
    count(replica.running_tokens, "running_tokens");
    count(replica.computed_tokens, "computed_tokens");
    works.push_back(checked_sum(replica.waiting_tokens, replica.running_tokens));
  }
  return works;
}

// A prompt, hashed once for all replicas with pages of the same size.
class HashedPrompt {
 public:
  HashedPrompt(const kv::CacheNamespace& space, std::span<const Token> tokens)
      : space_(space), tokens_(tokens) {}

  // How many tokens a replica has cached, without the last, whose logits are needed.
  Index matched(const kv::PrefixSummary& prefixes) {
    if (prefixes.page_tokens() != page_tokens_) {
      page_tokens_ = prefixes.page_tokens();
      pages_ = kv::page_hashes(space_, tokens_, page_tokens_);
    }
    return std::min(prefixes.matched(pages_), std::ssize(tokens_) - 1);
  }

 private:
  kv::CacheNamespace space_;
  std::span<const Token> tokens_;
  Index page_tokens_ = 0;
  std::vector<std::uint64_t> pages_;
};

// What the prompt would cost at a replica; the least bid wins.
struct Bid {
  Index cost = 0;
  Index computed_tokens = 0;
  Index replica = 0;
  Index matched = 0;

  friend auto operator<=>(const Bid&, const Bid&) = default;
};

}  // namespace detail

DECANT_INLINE Route route(const kv::CacheNamespace& space, std::span<const Token> prompt,
                          std::span<const Replica> replicas, const RouterOptions& options) {
  expects(!replicas.empty(), "decoding::route: there are no replicas");
  expects(!prompt.empty(), "decoding::route: the prompt is empty");
  expects(options.max_imbalance >= 0, "decoding::route: max_imbalance is ", options.max_imbalance);
  const std::vector<Index> works = detail::works(replicas);
  const Index least = std::ranges::min(works);
  detail::HashedPrompt hashed(space, prompt);
  std::optional<detail::Bid> best;
  for (std::size_t at = 0; at < replicas.size(); ++at) {
    if (works[at] - least > options.max_imbalance) continue;
    const Index matched = hashed.matched(replicas[at].prefixes);
    const detail::Bid bid = {.cost = checked_sum(works[at], std::ssize(prompt) - matched),
                             .computed_tokens = replicas[at].computed_tokens,
                             .replica = static_cast<Index>(at),
                             .matched = matched};
    if (!best || bid < *best) best = bid;
  }
  return {best->replica, best->matched, std::ssize(prompt) - best->matched};
}

}  // namespace decant::inline DECANT_ABI::decoding
