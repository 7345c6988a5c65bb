// decant/decoding/feeding.hpp - how a store comes to hold a sequence, and how long it can get.
//
// Depends on  decoding/generation.hpp, kv/block.hpp,
// model/{batch,decoder,store_check,workspace}.hpp Tested by
// tests/decoding/{generate,beam,speculative,samples,scheduler}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace decant::inline v0::decoding {

namespace detail {

// The longest sequence whose tokens can all be fed, and what is short beyond it.
struct Room {
  Index tokens = 0;
  Reason beyond = Reason::cache_full;
};

template <kv::Store S>
Room room(const model::Decoder& decoder, const S& store) {
  const Index positions = decoder.positions();
  if (positions < store.capacity()) return {positions, Reason::positions_full};
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
inline void check_prompt(std::span<const Token> prompt, const model::Config& config,
                         std::string_view who) {
  expects(!prompt.empty(), who, ": the prompt is empty");
  check_tokens(prompt, config, who, "prompt");
}

// Refuses a prompt that is longer than a store or a model, and a store or a workspace made for
// another one; says how long the sequence may get.
//
// Errors   std::invalid_argument, CacheFull
template <kv::Store S>
Room check_run(const model::Decoder& decoder, const S& store, const model::Workspace& workspace,
               std::span<const Token> prompt, std::string_view who) {
  const Room room = detail::room(decoder, store);
  const bool fits = std::ssize(prompt) <= room.tokens;
  expects(fits || room.beyond == Reason::cache_full, who, ": a prompt of ", prompt.size(),
          " tokens for a model of ", room.tokens, " positions");
  expects<CacheFull>(fits, who, ": a prompt of ", prompt.size(), " tokens for a store of ",
                     room.tokens);
  model::check(decoder.config(), store, who);
  expects(workspace.config() == decoder.config(), who,
          ": the workspace was made for another configuration");
  return room;
}

// Refuses a workspace in which not so many sequences can each have a token of a step.
//
// Errors   std::invalid_argument
inline void check_width(const model::Workspace& workspace, Index sequences, const char* noun,
                        std::string_view who) {
  const model::Limits& limits = workspace.limits();
  expects(std::min({limits.rows, limits.logit_rows, limits.sequences}) >= sequences, who,
          ": a workspace of ", limits.rows, " rows, ", limits.logit_rows, " of logits and ",
          limits.sequences, " sequences, for ", sequences, " ", noun);
}

// Feeds what a store lacks of a sequence, as many rows a step as workspace and store take; row 0
// has the logits of the last token then. go_on() is asked before each step; false where it said no.
template <kv::Store S, class GoOn>
bool feed(const model::Decoder& decoder, S& store, model::Workspace& workspace,
          model::Batch<S>& batch, std::span<const Token> tokens, GoOn&& go_on) {
  while (store.end() < std::ssize(tokens)) {
    if (!go_on()) return false;
    const auto rest = tokens.subspan(static_cast<std::size_t>(store.end()));
    const Index rows = std::min({workspace.limits().rows, store.chunk(), std::ssize(rest)});
    const bool last = rows == std::ssize(rest);
    batch.clear();
    batch.add(store, rest.first(static_cast<std::size_t>(rows)),
              last ? model::Logits::last : model::Logits::none);
    decoder.step(batch, workspace);
  }
  return true;
}

}  // namespace detail

}  // namespace decant::inline v0::decoding
