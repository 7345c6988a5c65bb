// tests/kv/tokens.hpp - prompts that differ in their first token.
#pragma once

#include <decant/core/types.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

namespace decant::trial {

// first, first + 1, ...
inline std::vector<Token> tokens_from(Token first, Index count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace decant::trial
