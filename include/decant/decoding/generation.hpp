// decant/decoding/generation.hpp - the options of a run, and its result.
//
// Tested by   tests/decoding/{generate,generate_end,generate_limits,control}_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stop.hpp>
#include <decant/model/adapter.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// When a draft token is accepted.
enum class Verification {
  agreement,  // if it is the token of a run without drafts: tokens stay the same
  rejection,  // by rejection sampling: accepts more drafts; the distribution stays the same
};

// A token of the answer, as a sink gets it.
struct NewToken {
  Token token = 0;
  // What became certain of the text with this token, if GenerateOptions::text is set. What becomes
  // certain only at the end is in Generation::text alone.
  std::string text = {};
  std::optional<LogProbabilities> log_probabilities = {};  // if they are asked for

  operator Token() const noexcept { return token; }  // for those who want no more of it
};

struct GenerateOptions {
  Index max_new_tokens = 256;
  // How many of the prompt's first tokens the store holds already: they are not computed again, and
  // what the store holds behind them is dropped. The caller vouches for them (decoding/session.hpp
  // compares tokens).
  Index cached_tokens = 0;
  // For a run that continues another: how many tokens of `prompt` were the prompt of the first.
  // Those behind them count as generated tokens for penalties, masks and min_new_tokens.
  std::optional<Index> prompt_tokens = {};
  StopOptions stop = {};
  SamplerOptions sampler = {};
  std::uint64_t sequence = 0;  // another value, other random numbers of the same seed
  Verification verification = Verification::agreement;
  bool recompute = false;  // every step starts from an empty store; the tokens are the same
  std::optional<Index> log_probabilities = {};  // of each new token and so many most probable ones
  double max_seconds = std::numeric_limits<double>::infinity();  // checked between steps
  std::stop_token cancel = {};                                   // likewise, from any thread
  // The text of the new tokens: gets each of them, then std::nullopt, and returns what has become
  // certain, as a text::TextStream of the prompt does. Each answer goes on with a copy of its own.
  std::function<std::string(std::optional<Token>)> text = {};
  // Change a row of logits before anything else does, so that bans, penalties and filters hold
  // whatever they leave. They are called for drafts too, which so change no token.
  std::vector<std::function<void(const History&, std::span<float> logits)>> logits_processors = {};
  // Never sampled: ids that the tokenizer has no token for (text::Tokenizer::unused_ids()), and
  // whatever else must not occur.
  std::vector<Token> banned_tokens = {};
  // For grammars: which tokens may follow the new ones so far, in the form that allow_only() takes.
  std::function<std::span<const std::uint32_t>(std::span<const Token>)> allowed = {};
  // What changes the model's projections for this sequence; tokens that a store holds already were
  // computed with the same one.
  std::shared_ptr<const model::Adapter> adapter = {};
};

// Why a run ended.
enum class Reason {
  length,          // max_new_tokens were generated
  end_token,       // the model ended its text
  stop_token,      // one of the caller's stop tokens was sampled
  stop_string,     // one of the caller's stop strings is in the text
  cache_full,      // the last token has no room in the store
  positions_full,  // the last token has no learned position
  sink,            // the token sink returned false
  time,            // max_seconds have passed
  cancelled,       // cancellation was requested
  failed,          // a request ended by an error (Outcome::error)
};

constexpr std::string_view name(Reason reason) noexcept {
  constexpr std::array<std::string_view, 10> kNames = {
      "length",         "end token", "stop token", "stop string", "cache full",
      "positions full", "sink",      "time",       "cancelled",   "failed"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct Generation {
  // The new ones, without the token that ended the run or those of the stop string; one that has
  // text before the stop string too is among them.
  std::vector<Token> tokens = {};
  std::string text = {};  // of the answer, without the stop string, if GenerateOptions::text is set
  Reason reason = Reason::length;
  std::optional<Token> ended_by = {};  // the end or stop token, if one was sampled
  std::string stop_string = {};        // the one that ended the run
  std::vector<LogProbabilities> log_probabilities = {};  // before penalties, masks and filters
  Statistics statistics = {};
};

}  // namespace decant::inline DECANT_ABI::decoding
