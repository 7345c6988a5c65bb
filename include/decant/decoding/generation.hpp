// decant/decoding/generation.hpp - what a run is asked for, and what comes of it.
//
// Tested by   tests/decoding/{generate,generate_end,generate_limits,control}_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stop.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

namespace decant::inline v0::decoding {

// When a draft token is accepted.
enum class Verification {
  agreement,  // where it is the token of a run without drafts: exact, draw by draw
  rejection,  // as often as its distribution allows: more of them, of the same distribution
};

struct GenerateOptions {
  Index max_new_tokens = 256;
  // How many tokens of the prompt were given; those behind them are text of a run that goes on,
  // which penalties, masks and min_new_tokens then look at as such. All of them unless it is said.
  std::optional<Index> prompt_tokens = {};
  StopTokens stop = {};
  SamplerOptions sampler = {};
  std::uint64_t sequence = 0;  // whose random numbers; tell sequences of one seed apart by it
  Verification verification = Verification::agreement;
  bool recompute = false;  // every step starts from an empty store; the tokens are the same
  std::optional<Index> log_probabilities = {};  // of each new token, and of so many best ones
  double max_seconds = std::numeric_limits<double>::infinity();  // looked at between steps
  std::stop_token cancel = {};                                   // likewise, from any thread
  // Which tokens may follow the new ones so far, as allow_only() takes them: for grammars.
  std::function<std::span<const std::uint32_t>(std::span<const Token>)> allowed = {};
};

// Why a run ended.
enum class Reason {
  length,          // max_new_tokens were generated
  end_token,       // the model ended its text
  stop_token,      // one of the caller's stop tokens came
  cache_full,      // the last token has no room in the store
  positions_full,  // the last token has no learned position
  sink,            // the token sink said so
  time,            // max_seconds have passed
  cancelled,       // somebody asked for it
  failed,          // by an error, which the caller of the run gets
};

constexpr std::string_view name(Reason reason) noexcept {
  constexpr std::array<std::string_view, 9> kNames = {"length",     "end token",      "stop token",
                                                      "cache full", "positions full", "sink",
                                                      "time",       "cancelled",      "failed"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct Generation {
  std::vector<Token> tokens = {};  // the new ones, without the token that ended the run
  Reason reason = Reason::length;
  std::optional<Token> ended_by = {};                    // the end or stop token, where one came
  std::vector<LogProbabilities> log_probabilities = {};  // of the model's own distribution
  Statistics statistics = {};
};

}  // namespace decant::inline v0::decoding
