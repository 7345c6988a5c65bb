// decant/checkpoints/checkpoint.hpp - what a checkpoint holds: a configuration and weights.
//
// Tested by   tests/checkpoints/checkpoint_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <optional>
#include <string>
#include <vector>

namespace decant::inline v0::checkpoints {

// What `model::Decoder` takes, and what a loop around it wants to know.
struct Checkpoint {
  model::Config config;
  model::Weights weights;
  std::vector<Token> end_tokens;      // any of them ends a text; may be none
  std::optional<Token> begin_token;   // what the model expects a text to begin with
  std::vector<std::string> warnings;  // sentences for the user: odd, but not wrong
};

}  // namespace decant::inline v0::checkpoints
