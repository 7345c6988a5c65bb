// decant/decoding/session.hpp - a store that knows which tokens it holds, for conversations.
//
// Each turn gives the whole conversation as its prompt. What the store has in common with it is
// reused, the rest is dropped and computed, so that a store never stands for another text than the
// one it was computed from.
//
// Tested by   tests/decoding/session_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/steps.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// Threads  one owner
template <kv::Store S>
class Session {
 public:
  // Takes a store, and the tokens that it holds: those of a snapshot that was restored, or of a
  // prefix that was found; and the adapter with which they were computed.
  //
  // Errors   std::invalid_argument if the store holds another number of tokens
  explicit Session(S store, std::vector<Token> tokens = {}, const model::Adapter* adapter = nullptr)
      : store_(std::move(store)), tokens_(std::move(tokens)), adapter_(id_of(adapter)) {
    expects(store_.end() == std::ssize(tokens_), "decoding::Session: ", tokens_.size(),
            " tokens for a store that holds ", store_.end());
  }

  const S& store() const noexcept { return store_; }
  std::span<const Token> tokens() const noexcept { return tokens_; }

  // How many of the first tokens of a prompt are not computed again. A ring that has overwritten
  // what the first new token needs begins anew.
  Index cached_tokens(std::span<const Token> prompt) const {
    const auto common = std::ranges::mismatch(tokens_, prompt).in1 - tokens_.begin();
    const Index most = std::min<Index>(common, std::ssize(prompt) - 1);
    return most >= store_.earliest_rewind() ? std::max<Index>(0, most) : 0;
  }

  // A copy whose store shares pages with this one.
  Session fork() const
  requires Forkable<S>
  {
    Session copy(store_.fork(), tokens_);
    copy.adapter_ = adapter_;
    return copy;
  }

 private:
  template <kv::Store T, std::predicate<const NewToken&> Sink, class... D>
  friend Generation generate(const model::Decoder& decoder, Session<T>& session,
                             model::Workspace& workspace, std::span<const Token> prompt,
                             GenerateOptions options, Sink&& sink, D&... drafter);

  static std::uint64_t id_of(const model::Adapter* adapter) noexcept {
    return adapter == nullptr ? 0 : adapter->id();
  }

  // Drops tokens that the store does not hold, and what it holds of tokens that were never shown.
  void match() {
    const auto shown = std::ssize(tokens_);
    if (store_.end() > shown) store_.rewind(shown < store_.earliest_rewind() ? 0 : shown);
    tokens_.resize(static_cast<std::size_t>(store_.end()));
  }

  S store_;
  std::vector<Token> tokens_;
  std::uint64_t adapter_;  // with which they were computed; 0 for none
};

// generate() on the store of a session, with a drafter or without. What the store has in common
// with the prompt is reused, if it was computed with the same adapter, and the rest dropped first;
// the session then holds what the store holds, after an exception too.
//
// Errors   as generate(), and std::invalid_argument if options.cached_tokens is set
template <kv::Store S, std::predicate<const NewToken&> Sink, class... D>
Generation generate(const model::Decoder& decoder, Session<S>& session, model::Workspace& workspace,
                    std::span<const Token> prompt, GenerateOptions options, Sink&& sink,
                    D&... drafter) {
  expects(!prompt.empty(), "decoding::generate: the prompt is empty");
  expects(options.cached_tokens == 0, "decoding::generate: cached_tokens is ",
          options.cached_tokens, ", but a session counts them itself");
  detail::check_run(detail::Steps<S>{decoder, workspace}, session.store_, prompt, options,
                    "decoding::generate");
  std::vector<Token> tokens(prompt.begin(), prompt.end());
  const std::uint64_t adapter = Session<S>::id_of(options.adapter.get());
  options.cached_tokens = adapter == session.adapter_ ? session.cached_tokens(prompt) : 0;
  session.store_.rewind(options.cached_tokens);
  session.tokens_ = std::move(tokens);
  session.adapter_ = adapter;
  const auto record = [&](const NewToken& token) {
    session.tokens_.push_back(token);
    return sink(token);
  };
  try {
    Generation generation =
        generate(decoder, session.store_, workspace, prompt, options, record, drafter...);
    session.match();
    return generation;
  } catch (...) {
    session.match();
    throw;
  }
}

template <kv::Store S>
Generation generate(const model::Decoder& decoder, Session<S>& session, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options = {}) {
  return generate(decoder, session, workspace, prompt, options,
                  [](const NewToken&) { return true; });
}

}  // namespace decant::inline DECANT_ABI::decoding
