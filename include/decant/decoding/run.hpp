// decant/decoding/run.hpp - one run of generate() in progress.
//
// A step feeds what the store lacks of the sequence, and then one token at a time with the guesses
// of a drafter behind it. Of each row the token is sampled as if the guesses were not there; they
// count for as long as they agree, and the others leave the store. So drafts change no token,
// unless rejection is asked for, which judges each guess by its distribution.
//
// Depends on  decoding/{continuation,drafter,feeding,generation}.hpp,
//             model/{batch,decoder,store_check,workspace}.hpp
// Tested by   tests/decoding/{generate,control,speculative,rejection}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/continuation.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/block.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// One run in progress.
template <kv::Store S, Drafter D>
class Run {
 public:
  // Checks everything; changes nothing.
  Run(const model::Decoder& decoder, S& store, model::Workspace& workspace,
      std::span<const Token> prompt, const GenerateOptions& options, D& drafter)
      : decoder_(decoder),
        store_(store),
        workspace_(workspace),
        drafter_(drafter),
        room_(room(decoder, store)),
        text_(prompt, options, decoder.config(), "decoding::generate") {
    check_fits(prompt, room_, "decoding::generate");
    check(decoder.config(), store, "decoding::generate");
    expects(workspace.config() == decoder.config(),
            "decoding::generate: the workspace was made for another configuration");
    if constexpr (requires { drafter.vocabulary(); }) {
      expects(drafter.vocabulary() == decoder.config().vocabulary,
              "decoding::generate: drafts of a vocabulary of ", drafter.vocabulary(),
              ", for one of ", decoder.config().vocabulary);
    }
    const Index reused =
        options.recompute ? 0 : std::min<Index>(store.end(), std::ssize(prompt) - 1);
    expects<CannotRewind>(reused == 0 || reused >= store.earliest_rewind(),
                          "decoding::generate: the store cannot go back to ", reused,
                          " tokens, only to ", store.earliest_rewind());
    text_.statistics().cached_tokens = reused;
  }

  // Nothing, or why the prompt was not computed to its end.
  std::optional<Reason> prefill() {
    store_.rewind(text_.statistics().cached_tokens);
    const auto interrupted = catch_up();
    text_.statistics().prefill_seconds = text_.seconds();
    return interrupted;
  }

  template <class Sink>
  Reason decode(Sink& sink) {
    try {
      const Reason reason = take_tokens(sink);
      forget_drafts(text_.ended() || text_.generated() == 0 ? 0 : 1);
      return reason;
    } catch (...) {
      forget_drafts(0);
      throw;
    }
  }

  Generation finish(Reason reason) {
    text_.statistics().cache_bytes = store_.bytes();
    return text_.finish(reason);
  }

 private:
  template <class Sink>
  Reason take_tokens(Sink& sink) {
    while (true) {
      if (const auto ended = text_.take(workspace_, 0, drafts_, drafter_, sink)) return *ended;
      if (std::ssize(text_.sequence()) > room_.tokens) return room_.beyond;
      forget_drafts(1);
      if (text_.options().recompute) store_.rewind(0);
      try {
        if (const auto interrupted = catch_up()) return *interrupted;
      } catch (const CacheFull&) {  // others have taken what the pool had
        return Reason::cache_full;
      }
    }
  }

  // Takes rejected drafts out of the store, and of the sequence its last `unfed` tokens.
  void forget_drafts(Index unfed) {
    const Position end = std::ssize(text_.sequence()) - unfed;
    if (store_.end() > end) store_.rewind(end);
    drafts_.clear();
  }

  // How many drafts a step has room for beside the last token.
  Index draft_room() const {
    const model::Limits& limits = workspace_.limits();
    return std::max<Index>(
        0, std::min({limits.rows - 1, limits.logit_rows - 1, store_.chunk() - 1,
                     room_.tokens - std::ssize(text_.sequence()), text_.left() - 1}));
  }

  // Feeds the last token, with guesses behind it where the store has room for them.
  void feed_last() {
    const Index most = draft_room();
    if (most > 0) {
      const std::span<const Token> drafts = drafter_.propose(text_.history(), most);
      drafts_.assign(drafts.begin(), drafts.end());
    }
    fed_.assign(1, text_.sequence().back());
    fed_.insert(fed_.end(), drafts_.begin(), drafts_.end());
    try {
      step(fed_, drafts_.empty() ? model::Logits::last : model::Logits::all);
    } catch (const CacheFull&) {
      if (drafts_.empty()) throw;
      drafts_.clear();
      step(std::span(fed_).first(1), model::Logits::last);
    }
    text_.statistics().proposed_tokens += std::ssize(drafts_);
  }

  void step(std::span<const Token> tokens, model::Logits wanted) {
    batch_.clear();
    batch_.add(store_, tokens, wanted);
    decoder_.step(batch_, workspace_);
  }

  // Feeds what the store lacks of the sequence; the logits of its last token are in row 0 then,
  // those of drafts in the rows behind it.
  std::optional<Reason> catch_up() {
    std::optional<Reason> why;
    const auto go_on = [&] { return !(why = text_.interruption()); };
    if (text_.generated() > 0 && store_.end() == std::ssize(text_.sequence()) - 1) {
      if (go_on()) feed_last();
    } else {
      feed(decoder_, store_, workspace_, batch_, text_.sequence(), go_on);
    }
    return why;
  }

  const model::Decoder& decoder_;
  S& store_;
  model::Workspace& workspace_;
  D& drafter_;
  Room room_;
  Continuation text_;
  std::vector<Token> drafts_;  // fed behind the sequence, and not yet rejected
  std::vector<Token> fed_;     // the last token and those
  model::Batch<S> batch_;
};

}  // namespace detail

}  // namespace decant::inline v0::decoding
