// decant/decoding/run.hpp - one run of generate() in progress.
//
// A step feeds what the store lacks of the sequence, and then one token at a time with the guesses
// of a drafter behind it. Of each row the token is sampled as if the guesses were not there; they
// count for as long as they agree, and the others leave the store. So drafts change no token,
// unless rejection is asked for, which judges each guess by its distribution.
//
// Depends on  decoding/{branching,continuation,drafter,feeding,generation}.hpp,
//             model/{batch,decoder,workspace}.hpp
// Tested by   tests/decoding/{generate,control,speculative,rejection,branching}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/continuation.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/tree_drafter.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// One run in progress.
template <kv::Store S, class D>
class Run {
 public:
  // Checks everything; changes nothing.
  Run(const model::Decoder& decoder, S& store, model::Workspace& workspace,
      std::span<const Token> prompt, const GenerateOptions& options, D& drafter)
      : decoder_(decoder),
        store_(store),
        workspace_(workspace),
        drafter_(drafter),
        room_(check_run(decoder, store, workspace, prompt, "decoding::generate")),
        text_(prompt, options, decoder.config(), "decoding::generate") {
    if constexpr (kBranches) {
      expects(options.verification == Verification::agreement,
              "decoding::generate: verification by rejection is for guesses of one way");
    }
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
    } catch (...) {  // perhaps behind a token that is not the guess that was fed
      forget_drafts(text_.generated() == 0 ? 0 : 1);
      throw;
    }
  }

  Generation finish(Reason reason) {
    text_.statistics().cache_bytes = store_.bytes();
    return text_.finish(reason);
  }

 private:
  static constexpr bool kBranches = TreeDrafter<D> && Forkable<S>;

  template <class Sink>
  Reason take_tokens(Sink& sink) {
    while (true) {
      if (const auto ended = take_paths(sink)) return *ended;
      if (std::ssize(text_.sequence()) > room_.tokens) return room_.beyond;
      forget_drafts(1);
      if (text_.options().recompute) store_.rewind(0);
      if (const auto why = catch_up()) return *why;
    }
  }

  // The tokens of the rows of a step: along the first path while its drafts agree, then along one
  // that goes on as they did.
  template <class Sink>
  std::optional<Reason> take_paths(Sink& sink) {
    const auto begin = text_.sequence().size();
    if (paths_.empty()) return text_.take(workspace_, 0, {}, drafter_, sink);
    for (std::size_t path = 0; path < paths_.size();) {
      const auto taken = text_.sequence().size() - begin;
      const Index row = first_row(path) + static_cast<Index>(taken);
      const auto rest = std::span<const Token>(paths_[path]).subspan(taken);
      if (const auto ended = text_.take(workspace_, row, rest, drafter_, sink)) return ended;
      path = next_path(path, text_.sequence().subspan(begin));
    }
    return std::nullopt;
  }

  Index first_row(std::size_t path) const {
    Index row = 0;
    for (std::size_t before = 0; before < path; ++before) row += 1 + std::ssize(paths_[before]);
    return row;
  }

  // The next path that begins with what was taken, whose fork becomes the store; or the end.
  std::size_t next_path(std::size_t path, std::span<const Token> taken) {
    if constexpr (kBranches) {
      while (++path < paths_.size()) {
        if (paths_[path].size() < taken.size()) continue;
        if (!std::ranges::equal(taken, std::span(paths_[path]).first(taken.size()))) continue;
        std::swap(store_, forks_[path - 1]);
        text_.statistics().accepted_tokens += 1;
        return path;
      }
    }
    return paths_.size();
  }

  // Takes rejected drafts out of the store, and of the sequence its last `unfed` tokens.
  void forget_drafts(Index unfed) {
    const Position end = std::ssize(text_.sequence()) - unfed;
    if (store_.end() > end) store_.rewind(end);
    paths_.clear();
    forks_.clear();
  }

  // How many drafts a path has room for beside the last token.
  Index draft_room() const {
    const model::Limits& limits = workspace_.limits();
    return std::max<Index>(
        0, std::min({limits.rows - 1, limits.logit_rows - 1, store_.chunk() - 1,
                     room_.tokens - std::ssize(text_.sequence()), text_.left() - 1}));
  }

  void propose(Index most) {
    if constexpr (kBranches) {
      const model::Limits& limits = workspace_.limits();
      Index rows = std::min(limits.rows, limits.logit_rows);
      for (const std::vector<Token>& path : drafter_.propose_branches(text_.history(), most)) {
        const Index length = std::min({std::ssize(path), most, rows - 1});
        if (length < 1 || std::ssize(paths_) == limits.sequences) continue;
        paths_.emplace_back(path.begin(), path.begin() + length);
        rows -= 1 + length;
      }
    } else {
      const std::span<const Token> drafts = drafter_.propose(text_.history(), most);
      if (!drafts.empty()) paths_.emplace_back(drafts.begin(), drafts.end());
    }
  }

  // Feeds the last token, with guesses behind it where the store has room for them; or says that it
  // has none for the token, because others have taken what the pool had.
  std::optional<Reason> feed_last() {
    if (const Index most = draft_room(); most > 0) propose(most);
    try {
      if (!paths_.empty()) {
        step_paths();
        return std::nullopt;
      }
    } catch (const CacheFull&) {
      paths_.clear();
      forks_.clear();
    }
    return unless_full([&] { step(text_.sequence().last(1)); });
  }

  template <class F>
  static std::optional<Reason> unless_full(F&& work) {
    try {
      work();
      return std::nullopt;
    } catch (const CacheFull&) {
      return Reason::cache_full;
    }
  }

  void step(std::span<const Token> tokens) {
    batch_.clear();
    batch_.add(store_, tokens);
    decoder_.step(batch_, workspace_);
  }

  // The last token and the guesses behind it, the first path on the store and others on forks.
  void step_paths() {
    batch_.clear();
    if constexpr (kBranches) {
      while (forks_.size() + 1 < paths_.size()) forks_.push_back(store_.fork());
    }
    Index proposed = 0;
    for (std::size_t path = 0; path < paths_.size(); ++path) {
      fed_.assign(1, text_.sequence().back());
      fed_.insert(fed_.end(), paths_[path].begin(), paths_[path].end());
      batch_.add(path == 0 ? store_ : forks_[path - 1], fed_, model::Logits::all);
      proposed += std::ssize(paths_[path]);
    }
    decoder_.step(batch_, workspace_);
    text_.statistics().proposed_tokens += proposed;
  }

  // Feeds what the store lacks of the sequence; the logits of its last token are in row 0 then,
  // those of drafts in the rows behind it. Nothing, or why it did not.
  std::optional<Reason> catch_up() {
    if (text_.generated() > 0 && store_.end() == std::ssize(text_.sequence()) - 1) {
      const auto why = text_.interruption();
      return why ? why : feed_last();
    }
    std::optional<Reason> why;
    const auto fill = [&] {
      feed(decoder_, store_, workspace_, batch_, text_.sequence(),
           [&] { return !(why = text_.interruption()); });
    };
    if (text_.generated() > 0) {
      if (const auto full = unless_full(fill)) return full;
    } else {
      fill();
    }
    return why;
  }

  const model::Decoder& decoder_;
  S& store_;
  model::Workspace& workspace_;
  D& drafter_;
  Room room_;
  Continuation text_;
  std::vector<std::vector<Token>> paths_;  // drafts fed behind the sequence, not yet rejected
  std::vector<S> forks_;                   // of the store, for all paths but the first
  std::vector<Token> fed_;                 // the last token and a path
  model::Batch<S> batch_;
};

}  // namespace detail

}  // namespace decant::inline v0::decoding
