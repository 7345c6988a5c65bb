// decant/decoding/history.hpp - a sequence so far, and how much of it was given.
//
// Depends on  core/types.hpp
// Tested by   tests/decoding/penalties_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <span>

namespace decant::inline v0::decoding {

// A sequence, of which the caller gave the first `prompt` tokens.
struct History {
  std::span<const Token> tokens = {};
  Index prompt = 0;
};

}  // namespace decant::inline v0::decoding
