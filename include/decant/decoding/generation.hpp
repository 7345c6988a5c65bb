// decant/decoding/generation.hpp - the options of a run, and its result.
//
// Tested by   tests/decoding/{generate,generate_end,generate_limits,control}_test.cpp,
//             tests/decoding/{stop_strings,logits_processors}_test.cpp
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
  // The text that became certain with this token, if GenerateOptions::text is set. A character that
  // several tokens spell comes with the last of them. What GenerateOptions::text returns at the end
  // is in Generation::text; no sink gets it unless the last token was held back till then.
  std::string text = {};
  std::optional<LogProbabilities> log_probabilities = {};  // if they are asked for

  operator Token() const noexcept { return token; }  // for sinks that need the token alone
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
  // Turns new tokens into text: called with each of them, then with std::nullopt at the end, it
  // returns the text that has become certain. A text::TextStream of the prompt does that. Each
  // answer has a copy of the function, which must carry its own state.
  std::function<std::string(std::optional<Token>)> text = {};
  // Called in this order on each row of logits before a token is sampled from it; bans, masks,
  // penalties and filters come after them and so hold whatever they do. With drafts they get the
  // same histories and logits as without, so drafts change no token.
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
  // The new tokens, without the end or stop token. If a stop string ended the run, these are the
  // tokens whose text begins before the answer's text ends, so a token that has text before the
  // stop string and some of the stop string is among them.
  std::vector<Token> tokens = {};
  // If GenerateOptions::text is set; without the stop string, unless include_stop_string is set.
  std::string text = {};
  Reason reason = Reason::length;
  std::optional<Token> ended_by = {};  // the end or stop token, if one was sampled
  std::string stop_string = {};        // the one that ended the run
  // One for each token, if asked for: of the model's logits, before logits processors, bans, masks,
  // penalties and filters.
  std::vector<LogProbabilities> log_probabilities = {};
  Statistics statistics = {};
};

}  // namespace decant::inline DECANT_ABI::decoding
