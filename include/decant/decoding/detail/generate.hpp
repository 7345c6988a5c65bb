// decant/decoding/detail/generate.hpp - one sequence from its prompt to its end: what generate()
// does.
//
// Tested by   tests/decoding/{generate,control,speculative,rejection,tree_drafter}_test.cpp
#pragma once

#include <decant/decoding/detail/sequence.hpp>
#include <decant/decoding/generate.hpp>

#include <algorithm>
#include <optional>
#include <span>

namespace decant::inline DECANT_ABI::decoding::detail {

inline constexpr const char* kGenerate = "decoding::generate";

// Refuses a drafter that a run cannot use.
//
// Errors   std::invalid_argument
inline void check(const Drafting& drafting, const GenerateOptions& options) {
  expects(!drafting.tree || options.verification == Verification::agreement, kGenerate,
          ": verification by rejection is for drafts in one branch");
}

// How many drafts a step has room for beside the last token.
template <kv::Store S>
DraftRoom draft_room(const Steps<S>& steps, const Sequence<S&>& sequence, const Room& room) {
  const model::Limits& limits = steps.workspace.limits();
  const Index rows = std::min(limits.rows, limits.logit_rows) - 1;
  const Index tokens = room.tokens - std::ssize(sequence.text().tokens());
  return {.most = std::min(sequence.store().chunk() - 1, tokens),
          .rows = rows,
          .sequences = limits.sequences - 1};
}

// The step that gives the logits of the last token and of its drafts; or the reason why it cannot
// run.
template <kv::Store S>
std::optional<Reason> advance(Steps<S>& steps, Sequence<S&>& sequence, const Room& room,
                              const Drafting* drafting) {
  if (sequence.text().options().recompute) {
    sequence.store().rewind(0);
    return sequence.feed(steps);
  }
  if (const auto why = sequence.text().interruption()) return why;
  sequence.plan(1);
  if (drafting != nullptr) {
    sequence.propose(drafting->propose, draft_room(steps, sequence, room), steps.decoder.config(),
                     kGenerate);
  }
  if (const auto why = sequence.reserve()) return why;
  steps.batch.clear();
  sequence.fill(steps.batch);
  steps.run();
  return std::nullopt;
}

template <kv::Store S>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options,
                    FunctionRef<bool(const NewToken&)> sink, const Drafting* drafting) {
  const model::Config& config = decoder.config();
  Steps<S> steps{decoder, workspace};
  const Room room = check_run(steps, store, prompt, options, kGenerate);
  if (drafting != nullptr) check(*drafting, options);
  Sequence<S&> sequence(Text(prompt, options, config.vocabulary), store, room);
  sequence.reuse_store(kGenerate);
  std::optional<Reason> ended = sequence.feed(steps);
  sequence.text().statistics().prefill_seconds = sequence.text().seconds();
  while (!ended) {
    ended = drafting == nullptr ? sequence.accept(workspace, 0, sink)
                                : sequence.accept(workspace, 0, sink, drafting->distribution);
    if (!ended) ended = advance(steps, sequence, room, drafting);
  }
  return sequence.finish(sequence.end(*ended, sink));
}

}  // namespace decant::inline DECANT_ABI::decoding::detail
