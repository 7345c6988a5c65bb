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

#include <decant/core/types.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/kv/prefix_summary.hpp>

#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

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

// The replica with the least cost for `prompt`.
//
// Errors   std::invalid_argument without replicas or tokens, on negative counts, and on a sum that
//          overflows; std::bad_alloc
// Cost     O(tokens) to hash the prompt, again where the next replica has another page size, and
//          O(pages of the prompt) for each replica
// Threads  a function of its arguments
[[nodiscard]] Route route(const kv::CacheNamespace& space, std::span<const Token> prompt,
                          std::span<const Replica> replicas, const RouterOptions& options = {});

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/router.hpp>
#endif
