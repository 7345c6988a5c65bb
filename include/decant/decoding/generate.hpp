// decant/decoding/generate.hpp - from a prompt to the tokens that follow it.
//
// One run feeds what the store lacks of the sequence, samples the next token, and repeats. The
// first feeding is the prefill, later ones are single rows, or those of guesses behind them;
// recomputing is the same on a store that is emptied before each, so there is no second path that
// could differ.
//
// Depends on  decoding/{branching,drafter,generation,run}.hpp, model/{decoder,workspace}.hpp
// Tested by   tests/decoding/{generate,generate_limits,generate_end,control,speculative}_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/run.hpp>
#include <decant/decoding/tree_drafter.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <concepts>
#include <optional>
#include <span>

namespace decant::inline v0::decoding {

// Continues `prompt`, giving each new token to `sink` as soon as it is known; a sink that returns
// false ends the run after that token.
//
// `prompt` is the whole prompt. What the store holds is taken as the beginning of it (the caller
// vouches for that) and cut so that at least the last prompt token is computed. The prompt is fed
// even where max_new_tokens is 0. The last new token is not fed: the store then holds the prompt
// and the tokens before it, ready for a longer prompt that begins with them. Where no room is
// left for the last new token, the run ends with cache_full or positions_full.
//
// A drafter saves steps and changes no token, unless rejection is asked for: a step verifies as
// many guesses as the workspace has rows of logits for, less one, so that the one row of a
// workspace for which nothing is said leaves room for none.
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, ids outside the
//          vocabulary, options, a store or workspace made for another model, a prompt longer than
//          learned positions, a drafter of another vocabulary), CacheFull where the prompt is
//          longer than the store, CannotRewind where the store holds too little before the last
//          prompt token. Later: BadLogits, NoCandidate, CacheFull where the pages that the prompt
//          takes are not to be had, std::invalid_argument where a mask or a guess does not fit the
//          vocabulary, and whatever sink, mask and drafter throw; the store then holds a beginning
//          of the sequence
// Cost     one step per chunk of workspace.limits().rows prompt tokens, one per new token but the
//          last; with recompute, the whole sequence for each new token
// Threads  the store, the workspace, the sink and the drafter belong to the run until it returns
template <kv::Store S, std::predicate<Token> Sink, DrafterFor<S> D>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options, Sink&& sink,
                    D& drafter) {
  detail::Run<S, D> run(decoder, store, workspace, prompt, options, drafter);
  const std::optional<Reason> interrupted = run.prefill();
  return run.finish(interrupted ? *interrupted : run.decode(sink));
}

template <kv::Store S, std::predicate<Token> Sink>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options, Sink&& sink) {
  NoDrafts none;
  return generate(decoder, store, workspace, prompt, options, sink, none);
}

template <kv::Store S>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options = {}) {
  return generate(decoder, store, workspace, prompt, options, [](Token) { return true; });
}

}  // namespace decant::inline v0::decoding
