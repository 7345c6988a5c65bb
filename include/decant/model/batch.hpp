// decant/model/batch.hpp - the input of one step: rows of tokens, each with its store.
//
// Prefill, decode, a chunk of a prompt and the verification of drafts are the same thing here:
// some tokens that follow what a store holds.
//
// Tested by   tests/model/batch_test.cpp
#pragma once

#include <decant/attention/problem.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::model {

class Adapter;

// The largest step that a workspace has room for.
struct Limits {
  Index rows = 512;
  Index logit_rows = 1;
  Index sequences = 1;
  Index hidden_rows = 0;  // of hidden states
};

template <kv::Store S>
class Batch;
namespace detail {
// What a layer asks of attention, one per entry; the step fills it in.
template <kv::Store S>
std::span<attention::Sequence<S>> sequences(Batch<S>& batch) noexcept {
  return batch.sequences_;
}
}  // namespace detail

// Which rows of an entry get logits.
enum class Logits { none, last, all };
// Which rows get hidden states: what the last layer gives, normalised.
enum class Hidden { none, last, all };

// The order of add() is the order of rows, of logits and of hidden states. Stores and adapters are
// borrowed until the step is done.
//
// Errors   std::invalid_argument, std::bad_alloc; the batch is then as it was
// Cost     add copies the tokens and looks at every entry; clear does not release memory
// Threads  as a std::vector
template <kv::Store S>
class Batch {
 public:
  struct Entry {
    S* store;
    Index first_row;
    Index rows;
    Logits wanted;
    const Adapter* adapter;  // null for none
    Hidden hidden;

    // Where a row of the batch, one of this entry's, stands in its sequence.
    Position position(Index row) const { return store->end() + row - first_row; }
  };

  // Rows of one sequence all have the same adapter, or none: what its store holds depends on it.
  //
  // Shape    tokens is [rows], at least one, and not the batch's own
  // Errors   std::invalid_argument for no tokens, or a store that is in the batch already
  void add(S& store, std::span<const Token> tokens, Logits wanted = Logits::last,
           const Adapter* adapter = nullptr, Hidden hidden = Hidden::none) {
    expects(!tokens.empty(), "model::Batch::add: no tokens");
    for (const Entry& entry : entries_) {
      expects(entry.store != &store,
              "model::Batch::add: the store is in the batch already, as entry ",
              &entry - entries_.data());
    }
    const Entry entry = {&store, rows(), std::ssize(tokens), wanted, adapter, hidden};
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    try {
      sequences_.push_back({.store = &store, .rows = entry.rows});
      entries_.push_back(entry);
    } catch (...) {
      tokens_.resize(static_cast<std::size_t>(entry.first_row));
      sequences_.resize(entries_.size());
      throw;
    }
    if (wanted != Logits::none) logit_rows_ += wanted == Logits::all ? std::ssize(tokens) : 1;
    if (hidden != Hidden::none) hidden_rows_ += hidden == Hidden::all ? std::ssize(tokens) : 1;
  }

  void clear() noexcept {
    entries_.clear();
    sequences_.clear();
    tokens_.clear();
    logit_rows_ = 0;
    hidden_rows_ = 0;
  }

  Index rows() const noexcept { return std::ssize(tokens_); }
  Index logit_rows() const noexcept { return logit_rows_; }
  Index hidden_rows() const noexcept { return hidden_rows_; }
  std::span<const Entry> entries() const noexcept { return entries_; }
  std::span<const Token> tokens() const noexcept { return tokens_; }

  // The entry that `row` of [0, rows()) belongs to.
  const Entry& entry_of(Index row) const noexcept {
    const auto after =
        std::upper_bound(entries_.begin(), entries_.end(), row,
                         [](Index at, const Entry& entry) { return at < entry.first_row; });
    return *(after - 1);
  }

 private:
  friend std::span<attention::Sequence<S>> detail::sequences<S>(Batch& batch) noexcept;

  std::vector<Entry> entries_;
  std::vector<attention::Sequence<S>> sequences_;
  std::vector<Token> tokens_;
  Index logit_rows_ = 0;
  Index hidden_rows_ = 0;
};

}  // namespace decant::inline DECANT_ABI::model
