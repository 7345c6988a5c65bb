// decant/decoding/detail/steps.hpp - the checks of a run, and how a store is fed the tokens of a
// sequence.
//
// Tested by   tests/decoding/{generate,generate_limits,beam,samples,speculative}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

// The decoder and the workspace that steps run on, and the batch of the next one.
template <kv::Store S>
struct Steps {
  const model::Decoder& decoder;
  model::Workspace& workspace;
  model::Batch<S> batch = {};

  void run() { decoder.step(batch, workspace); }
};

// What a step has room for beside the row of a sequence's last token.
struct DraftRoom {
  Index most = 0;  // drafts in a branch
  Index rows = 0;  // in all branches; every branch but the first takes one for the last token too
  Index sequences = 0;  // branches beside the first
};

// The longest sequence whose tokens can all be fed, and the reason why a longer one ends.
struct Room {
  Index tokens = 0;
  Reason beyond = Reason::cache_full;
};

inline Room room(const model::Decoder& decoder) {
  return {decoder.positions(), Reason::positions_full};
}
template <kv::Store S>
Room room(const model::Decoder& decoder, const S& store) {
  if (decoder.positions() < store.capacity()) return room(decoder);
  return {store.capacity(), Reason::cache_full};
}

// Refuses tokens that a model does not know, in the name of `who`.
//
// Errors   std::invalid_argument
inline void check_tokens(std::span<const Token> tokens, const model::Config& config,
                         std::string_view who, const char* whose) {
  for (Token token : tokens) {
    expects(token >= 0 && token < config.vocabulary, who, ": token ", token, " of the ", whose,
            " is outside the vocabulary of ", config.vocabulary);
  }
}

// Refuses a prompt or options that are invalid for a model, in the name of `who`: the only check
// between a user and a Text.
//
// Errors   std::invalid_argument
inline void check(const GenerateOptions& options, std::span<const Token> prompt,
                  const model::Config& config, std::string_view who) {
  const auto count = [&](Index number, const char* name) {
    expects(number >= 0, who, ": ", name, " is ", number);
  };
  expects(!prompt.empty(), who, ": the prompt is empty");
  check_tokens(prompt, config, who, "prompt");
  count(options.max_new_tokens, "max_new_tokens");
  count(options.cached_tokens, "cached_tokens");
  expects(options.cached_tokens <= std::ssize(prompt), who, ": cached_tokens is ",
          options.cached_tokens, ", of a prompt of ", prompt.size());
  count(options.stop.min_new_tokens, "min_new_tokens");
  count(options.log_probabilities.value_or(0), "log_probabilities");
  count(options.prompt_tokens.value_or(0), "prompt_tokens");
  expects(options.prompt_tokens.value_or(0) <= std::ssize(prompt), who, ": prompt_tokens is ",
          options.prompt_tokens.value_or(0), ", of a prompt of ", prompt.size());
  expects(options.max_seconds >= 0, who, ": max_seconds is ", options.max_seconds);
  check_tokens(options.stop.stop_tokens, config, who, "stop tokens");
  expects(options.stop.stop_strings.empty() || options.text, who,
          ": stop strings are parts of the text, and options.text is empty");
  check_tokens(options.banned_tokens, config, who, "banned tokens");
  expects(options.adapter == nullptr || options.adapter->config() == config, who,
          ": the adapter was made for another configuration");
  decoding::check(options.sampler);
  decoding::check(options.sampler.penalties, config.vocabulary);
}

// Refuses a prompt that is longer than its room.
//
// Errors   std::invalid_argument if the model is short of positions, CacheFull if the store is
inline void check_fits(Index prompt, const Room& room, std::string_view who) {
  const bool fits = prompt <= room.tokens;
  expects(fits || room.beyond == Reason::cache_full, who, ": a prompt of ", prompt,
          " tokens for a model of ", room.tokens, " positions");
  expects<CacheFull>(fits, who, ": a prompt of ", prompt, " tokens for a store of ", room.tokens);
}

// Refuses to recompute where sequences share steps.
//
// Errors   std::invalid_argument
inline void check_cached(const GenerateOptions& options, std::string_view who) {
  expects(!options.recompute, who, ": recompute is for generate() alone");
}

// Refuses a prompt that is longer than a store or a model, and a store or a workspace made for
// another model; returns how long the sequence may get.
//
// Errors   std::invalid_argument, CacheFull
template <kv::Store S>
Room check_run(const Steps<S>& steps, const S& store, std::span<const Token> prompt,
               const GenerateOptions& options, std::string_view who) {
  const model::Config& config = steps.decoder.config();
  check(options, prompt, config, who);
  const Room room = detail::room(steps.decoder, store);
  check_fits(std::ssize(prompt), room, who);
  model::check(config, store, who);
  expects(steps.workspace.config() == config, who,
          ": the workspace was made for another configuration");
  return room;
}

// Refuses a workspace whose step has no room for a token of each of so many sequences.
//
// Errors   std::invalid_argument
inline void check_sequences(const model::Workspace& workspace, Index sequences, const char* noun,
                            std::string_view who) {
  const model::Limits& limits = workspace.limits();
  expects(std::min({limits.rows, limits.logit_rows, limits.sequences}) >= sequences, who,
          ": a workspace of ", limits.rows, " rows, ", limits.logit_rows, " of logits and ",
          limits.sequences, " sequences, for ", sequences, " ", noun);
}

// Adds to a batch the next `rows` tokens that a store lacks of a sequence, and drafts behind the
// last token. The last token of the sequence and each draft have a row of logits.
template <kv::Store S>
void fill(model::Batch<S>& batch, S& store, std::span<const Token> sequence, Index rows,
          const model::Adapter* adapter, std::span<const Token> drafts = {}) {
  const auto next =
      sequence.subspan(static_cast<std::size_t>(store.end()), static_cast<std::size_t>(rows));
  const bool last = store.end() + rows == std::ssize(sequence);
  if (drafts.empty()) {
    return batch.add(store, next, last ? model::Logits::last : model::Logits::none, adapter);
  }
  std::vector<Token> tokens(next.begin(), next.end());
  tokens.insert(tokens.end(), drafts.begin(), drafts.end());
  batch.add(store, tokens, model::Logits::all, adapter);
}

// Feeds what a store lacks of a sequence, as many rows a step as workspace and store take; row 0
// then has the logits of the last token. go_on() is asked before each step and may end it.
template <kv::Store S>
void feed(Steps<S>& steps, S& store, std::span<const Token> sequence, const model::Adapter* adapter,
          FunctionRef<bool()> go_on) {
  while (store.end() < std::ssize(sequence) && go_on()) {
    steps.batch.clear();
    fill(steps.batch, store, sequence,
         std::min(
             {steps.workspace.limits().rows, store.chunk(), std::ssize(sequence) - store.end()}),
         adapter);
    steps.run();
  }
}

}  // namespace decant::inline DECANT_ABI::decoding::detail
