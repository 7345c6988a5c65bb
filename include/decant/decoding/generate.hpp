// decant/decoding/generate.hpp - from a prompt to the tokens that follow it.
//
// A run feeds what the store lacks of the sequence, samples the next token, and repeats. The first
// feed is the prefill; later ones are the row of the last token, and those of drafts behind it.
// Recomputing is the same on a store that is emptied before each feed, so there is no second way
// that could differ.
//
// Tested by   tests/decoding/{generate,generate_limits,generate_end,control,speculative}_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <concepts>
#include <span>

namespace decant::inline DECANT_ABI::decoding {

namespace detail {

// generate() for any sink and drafter; without drafts if `drafting` is null.
template <kv::Store S>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options,
                    FunctionRef<bool(const NewToken&)> sink, const Drafting* drafting);

}  // namespace detail

// Continues `prompt`, giving each new token to `sink` as soon as it is known to be in the answer;
// a sink that returns false ends the run after that token.
//
// `prompt` is the whole prompt. Of what the store holds, the first options.cached_tokens are
// reused, which are none unless the caller says so; the last prompt token is always computed. The
// prompt is fed even if max_new_tokens is 0. The last new token is not fed: the store then holds
// the prompt and the tokens before it, ready for a longer prompt that begins with them. If no room
// is left for the last new token, the run ends with cache_full or positions_full.
//
// A drafter saves steps and changes no token, unless rejection is asked for: a step verifies as
// many drafts as the workspace has rows of logits for, less one; the one row of a default
// workspace leaves room for none. A drafter's vocabulary may be padded to another size; that its
// tokens mean the same strings is the caller's to know (text::Tokenizer::first_difference()).
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, ids outside the
//          vocabulary, options, more cached_tokens than the store holds, a store or workspace made
//          for another model, a prompt longer than learned positions, rejection with a tree),
//          CacheFull if the prompt is longer than the store, CannotRewind if a ring has overwritten
//          what the last prompt token needs. Later: BadLogits, NoCandidate,
//          CacheFull if the pool lacks the pages of the prompt, std::invalid_argument if a mask or
//          a draft does not fit the vocabulary, and whatever functions of the caller throw; the
//          store then holds a beginning of the sequence
// Cost     one step per chunk of workspace.limits().rows prompt tokens, one per new token but the
//          last; with recompute, the whole sequence for each new token
// Threads  the store, the workspace, the sink and the drafter belong to the run until it returns
template <kv::Store S, std::predicate<const NewToken&> Sink, DrafterFor<S> D>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options, Sink&& sink,
                    D& drafter) {
  constexpr bool kTree = TreeDrafter<D> && Forkable<S>;
  const auto propose = [&](const History& history, Index most, Branches& branches) {
    detail::propose<kTree>(drafter, history, most, branches);
    if constexpr (requires { drafter.vocabulary(); }) {
      if (drafter.vocabulary() > decoder.config().vocabulary) {
        detail::cut_unknown(branches, decoder.config().vocabulary);
      }
    }
  };
  const auto distribution = [&]([[maybe_unused]] Index at) -> std::span<const Candidate> {
    if constexpr (DrafterWithDistribution<D>) return drafter.distribution(at);
    return {};
  };
  detail::Drafting drafting{propose, distribution, kTree};
  return detail::generate(decoder, store, workspace, prompt, options, sink, &drafting);
}

template <kv::Store S, std::predicate<const NewToken&> Sink>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options, Sink&& sink) {
  return detail::generate(decoder, store, workspace, prompt, options, sink, nullptr);
}

template <kv::Store S>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options = {}) {
  return generate(decoder, store, workspace, prompt, options, [](const NewToken&) { return true; });
}

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/generate.hpp>
#endif
