// decant/kv/prefix.hpp - cache namespaces, hashes of tokens, and statistics of the prefix cache.
//
// Tested by   tests/kv/prefix_tree_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <compare>
#include <cstdint>
#include <span>

namespace decant::inline DECANT_ABI::kv {

// The owner of keys and values: prompts of different models, adapters or tenants share nothing.
struct CacheNamespace {
  std::uint64_t model = 0;
  std::uint64_t adapter = 0;
  std::uint64_t tenant = 0;
  friend auto operator<=>(const CacheNamespace&, const CacheNamespace&) = default;
};

// A hash of some tokens behind others (FNV-1a, by words).
struct TokenHash {
  std::uint64_t operator()(std::uint64_t before, std::span<const Token> tokens) const noexcept {
    std::uint64_t hash = before ^ 14695981039346656037u;
    for (Token token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 1099511628211u;
    }
    return hash;
  }
};

struct PrefixStatistics {
  Index prompts = 0;
  Index hits = 0;  // prompts of which something was reused
  Index reused_tokens = 0;
  Index computed_tokens = 0;
  Index evicted_pages = 0;
};

}  // namespace decant::inline DECANT_ABI::kv
