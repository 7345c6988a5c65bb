// decant/decoding/router.hpp - which of several replicas a prompt goes to.
//
// A replica that caches a prompt's beginning computes less of it, and one that is busy makes it
// wait. Both are tokens, so they add up:
//
//   cost = tokens of the prompt that it must compute + tokens that it still has to do
//
// and the replica of least cost is done with the prompt first. A replica is chosen only while it
// has no more work than the least busy one plus the tokens that it saves, and at most max_imbalance
// more; so a prefix that all prompts share is soon cached by several. Nothing is random and nothing
// is stored here; what a replica caches is a hint (kv/prefix_summary.hpp), and a wrong one costs
// time, not an answer.
//
// Source      Srivatsa et al. 2024, "Preble", arXiv:2407.00023 (reuse and load in one cost); tokens
//             to compute plus load also in NVIDIA Dynamo, "KV router"; a bound of the imbalance in
//             the cache-aware router of SGLang
// Tested by   tests/decoding/router_test.cpp; measured by bench/decoding/routing_bench.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/kv/prefix_summary.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// A worker as a router knows it. Between two reports of the worker, add what was sent to it: the
// prompt to `prefixes`, new_tokens of the route to the counts.
//
// Units    tokens of a prompt; count a generated token as the number of them that take as long
struct Replica {
  kv::PrefixSummary prefixes;
  Index waiting_tokens = 0;   // of prompts that are not computed yet
  Index running_tokens = 0;   // that are still to be generated, as far as known
  Index computed_tokens = 0;  // so far: decides between equal costs, then the first replica wins
};

struct RouterOptions {
  // Tokens of work; a replica that has more than that beyond the least busy one is not chosen.
  Index max_imbalance = 16'384;
};

// The replica for a prompt, and what of the prompt it is expected to have cached.
struct Route {
  Index replica = 0;
  Index matched_tokens = 0;
  Index new_tokens = 0;  // at least 1: the logits of the last token are needed

  friend bool operator==(const Route&, const Route&) = default;
};

namespace detail {

// The work of each replica, in tokens.
inline std::vector<Index> works(std::span<const Replica> replicas) {
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

// The replica with the least cost for `prompt`.
//
// Errors   std::invalid_argument without replicas or tokens, on negative counts, and on a sum that
//          overflows; std::bad_alloc
// Cost     O(tokens) to hash the prompt, again where the next replica has another page size, and
//          O(pages of the prompt) for each replica
// Threads  a function of its arguments
inline Route route(const kv::CacheNamespace& space, std::span<const Token> prompt,
                   std::span<const Replica> replicas, const RouterOptions& options = {}) {
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

}  // namespace decant::inline v0::decoding
