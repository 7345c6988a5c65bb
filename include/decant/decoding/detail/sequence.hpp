// decant/decoding/detail/sequence.hpp - one sequence on its way through steps: its text, the store
// of its keys and values, and its rows in the next step.
//
// generate(), samples, beam search and the scheduler are policies over this state: they plan rows
// and drafts, reserve slots in stores, fill a batch, and accept tokens from rows of logits. A draft
// is accepted if it is the token that is sampled without it; rejected ones leave the store. So
// drafts change no token, unless verification by rejection is asked for.
//
// Tested by   tests/decoding/{generate,speculative,tree_drafter,samples,beam,scheduler}_test.cpp
#pragma once

#include <decant/decoding/detail/steps.hpp>
#include <decant/decoding/detail/text.hpp>
#include <decant/decoding/drafter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

// `Store` is a store that the sequence owns, or a reference to one that it borrows.
template <class Store>
class Sequence {
 public:
  using S = std::remove_reference_t<Store>;

  Sequence(Text text, Store&& store, const Room& room)
      : text_(std::move(text)), store_(std::forward<Store>(store)), room_(room) {}

  // A copy that continues from here, with the random numbers of the `n`-th sequence after this one.
  Sequence<S> fork(std::uint64_t n = 0) const {
    return {text_.of_sequence(n), store_.fork(), room_};
  }

  Text& text() noexcept { return text_; }
  const Text& text() const noexcept { return text_; }
  S& store() noexcept { return store_; }
  const S& store() const noexcept { return store_; }
  // How many tokens the store does not hold yet.
  Index lack() const noexcept { return std::ssize(text_.tokens()) - store_.end(); }

  // Cuts the store to the first options.cached_tokens of the prompt; the prompt's last token is
  // always computed, since its logits are needed.
  //
  // Errors   std::invalid_argument if the store holds fewer, CannotRewind; nothing changed then
  void reuse_store(std::string_view who) {
    const GenerateOptions& options = text_.options();
    expects(options.cached_tokens <= store_.end(), who, ": cached_tokens is ",
            options.cached_tokens, ", and the store holds ", store_.end());
    const Index cached =
        options.recompute ? 0
                          : std::min<Index>(options.cached_tokens, std::ssize(text_.tokens()) - 1);
    expects<CannotRewind>(cached == 0 || cached >= store_.earliest_rewind(), who,
                          ": the store cannot go back to ", cached, " tokens, only to ",
                          store_.earliest_rewind());
    store_.rewind(cached);
    text_.statistics().cached_tokens = cached;
  }

  // Replaces the store and drops what was planned.
  void set_store(S&& store) {
    plan(0);
    store_ = std::move(store);
  }

  // Feeds all tokens that the store lacks, or returns the reason why it stopped before.
  //
  // Errors   CacheFull before the first new token
  std::optional<Reason> feed(Steps<S>& steps) {
    return unless_full([&] {
      std::optional<Reason> why;
      detail::feed(steps, store_, text_.tokens(), adapter(),
                   [&] { return !(why = text_.interruption()); });
      return why;
    });
  }

  // Plan: the next `rows` tokens that the store lacks, without drafts.
  void plan(Index rows) {
    drop_drafts();
    rows_ = rows;
    gives_logits_ = rows > 0 && rows == lack();
  }

  // Plan: drafts behind the last token, if that token is all that the store lacks.
  //
  // Errors   std::invalid_argument on too many drafts and on ids outside the vocabulary; whatever
  //          the drafter throws
  void propose(const Propose& drafter, const DraftRoom& room, const model::Config& config,
               std::string_view who) {
    const Index most = std::min({room.most, room.rows, text_.left() - 1});
    if (rows_ != 1 || !gives_logits_ || most <= 0) return;
    drafter(text_.history(), most, branches_);
    for (const std::vector<Token>& branch : branches_) {
      expects(std::ssize(branch) <= most, who, ": the drafter proposes ", branch.size(),
              " tokens, of at most ", most);
      check_tokens(branch, config, who, "drafts");
    }
    cut_branches(room);
  }

  // How many rows are planned for the next step, and how many of them give logits.
  Index planned_rows() const noexcept {
    Index rows = rows_ + std::max<Index>(0, std::ssize(branches_) - 1);
    for (const auto& branch : branches_) rows += std::ssize(branch);
    return rows;
  }
  Index logit_rows() const noexcept { return gives_logits_ ? planned_rows() - rows_ + 1 : 0; }
  Index rows() const noexcept { return rows_; }
  Index branches() const noexcept { return std::ssize(branches_); }
  Index drafts() const noexcept {
    return planned_rows() - rows_ - std::max<Index>(0, branches() - 1);
  }

  void drop_drafts() noexcept {
    branches_.clear();
    forks_.clear();
  }

  // A fork of the store for each branch but the first.
  void fork_branches() {
    if constexpr (Forkable<S>) {
      if (branches() > 1 && forks_.empty()) store_.rewind(store_.end());  // releases reserved slots
      while (std::ssize(forks_) + 1 < branches()) forks_.push_back(store_.fork());
    }
  }

  // Pages that the planned rows take beside those that the stores have; with forks, an upper bound.
  Index pages() const {
    Index pages = store_.pages_for(rows_ + (branches_.empty() ? 0 : std::ssize(branches_.front())));
    for (std::size_t at = 0; at < forks_.size(); ++at) {
      pages += forks_[at].pages_for(1 + std::ssize(branches_[at + 1]));
    }
    return pages;
  }

  // Reserves slots for the planned rows, without drafts if there is no room for them; or returns
  // the reason why there is no room.
  //
  // Errors   CacheFull before the first new token
  std::optional<Reason> reserve() {
    if (!branches_.empty()) {
      try {
        fork_branches();
        store_.reserve(rows_ + std::ssize(branches_.front()));
        for (std::size_t at = 0; at < forks_.size(); ++at) {
          forks_[at].reserve(1 + std::ssize(branches_[at + 1]));
        }
        return std::nullopt;
      } catch (const CacheFull&) {
        drop_drafts();
        store_.rewind(store_.end());
      }
    }
    return unless_full([&] {
      store_.reserve(rows_);
      return std::optional<Reason>();
    });
  }

  // Fill: adds what is planned to a batch, which borrows the stores.
  void fill(model::Batch<S>& batch) {
    if (rows_ == 0) return;
    using Drafts = std::span<const Token>;
    detail::fill(batch, store_, text_.tokens(), rows_, adapter(),
                 branches_.empty() ? Drafts() : Drafts(branches_.front()));
    for (std::size_t at = 0; at < forks_.size(); ++at) {
      detail::fill(batch, forks_[at], text_.tokens(), 1, adapter(), Drafts(branches_[at + 1]));
    }
  }

  // Accept: takes tokens from its rows of logits, which begin with row `first`, and drops rejected
  // drafts from the store. Returns why the text has ended, if it has.
  //
  // Errors   as Text::take(); the store then holds the tokens that were taken before
  std::optional<Reason> accept(model::Workspace& workspace, Index first, Sink sink,
                               DraftDistribution distribution = kNoDistribution) {
    text_.statistics().proposed_tokens += drafts();
    try {
      const std::optional<Reason> ended = take(workspace, first, sink, distribution);
      rewind();
      if (!ended && std::ssize(text_.tokens()) > room_.tokens) return room_.beyond;
      return ended;
    } catch (...) {
      rewind();
      throw;
    }
  }

  // Ends the text as Text::end() does, and rewinds the store if that drops tokens.
  Reason end(Reason reason, Sink sink) {
    const std::size_t size = text_.tokens().size();
    reason = text_.end(reason, sink);
    if (text_.tokens().size() < size) rewind();
    return reason;
  }

  // Finish: the result of the run.
  Generation finish(Reason reason) noexcept {
    text_.statistics().cache_bytes = store_.bytes();
    return text_.finish(reason);
  }

 private:
  static constexpr auto kNone = [](Index) { return std::span<const Candidate>(); };
  static inline const DraftDistribution kNoDistribution = kNone;

  const model::Adapter* adapter() const noexcept { return text_.options().adapter.get(); }

  // A full store ends a text that has begun; before its first new token the caller gets the
  // exception.
  template <class F>
  std::optional<Reason> unless_full(F&& work) {
    try {
      return work();
    } catch (const CacheFull&) {
      if (text_.generated() == 0) throw;
      return Reason::cache_full;
    }
  }

  // Cuts proposed branches to the rows and sequences that there is room for, in order, and drops
  // the empty ones.
  void cut_branches(const DraftRoom& room) {
    std::size_t used = 0;
    Index rows = room.rows;
    for (std::vector<Token>& branch : branches_) {
      const Index own = used == 0 ? 0 : 1;
      const Index length = std::min(std::ssize(branch), rows - own);
      if (length < 1 || static_cast<Index>(used) > room.sequences) continue;
      rows -= own + length;
      branch.resize(static_cast<std::size_t>(length));
      std::swap(branches_[used++], branch);
    }
    branches_.resize(used);
  }

  // Follows the first branch while its drafts are accepted, then a later one that begins with the
  // tokens taken so far and has more.
  std::optional<Reason> take(model::Workspace& workspace, Index first, Sink sink,
                             DraftDistribution distribution) {
    if (branches_.empty()) return text_.take(workspace, first, {}, sink, distribution);
    const std::size_t begin = text_.tokens().size();
    for (std::size_t branch = 0; branch < branches_.size();) {
      const std::size_t taken = text_.tokens().size() - begin;
      const auto rest = std::span<const Token>(branches_[branch]).subspan(taken);
      const Index row = first + first_row(branch) + static_cast<Index>(taken);
      if (const auto ended = text_.take(workspace, row, rest, sink, distribution)) return ended;
      branch = next_branch(branch, text_.tokens().subspan(begin));
    }
    return std::nullopt;
  }

  Index first_row(std::size_t branch) const {
    Index row = 0;
    for (std::size_t at = 0; at < branch; ++at) row += 1 + std::ssize(branches_[at]);
    return row;
  }

  // The next branch that begins with the tokens taken, whose fork becomes the store, or
  // branches_.size().
  std::size_t next_branch(std::size_t branch, std::span<const Token> taken) {
    while (++branch < branches_.size()) {
      if (branches_[branch].size() < taken.size()) continue;
      if (!std::ranges::equal(taken, std::span(branches_[branch]).first(taken.size()))) continue;
      std::swap(store_, forks_[branch - 1]);
      text_.statistics().accepted_tokens += 1;
      break;
    }
    return branch;
  }

  // Drops rejected drafts from the store, and tokens of a stop string. The last new token has not
  // been fed, unless an end token followed it. A ring that has overwritten what it then needs is
  // emptied.
  void rewind() {
    const Index unfed = text_.ended() || text_.generated() == 0 ? 0 : 1;
    const Position end = std::min<Position>(store_.end(), std::ssize(text_.tokens()) - unfed);
    store_.rewind(end < store_.earliest_rewind() ? 0 : end);
    drop_drafts();
  }

  Text text_;
  Store store_;
  Room room_;
  Index rows_ = 0;                            // planned, of its own tokens
  bool gives_logits_ = false;                 // whether they reach its last token
  std::vector<std::vector<Token>> branches_;  // planned drafts
  std::vector<S> forks_;                      // of the store, for all branches but the first
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
