// decant/decoding/detail/answer_text.hpp - the text of an answer while it grows, and how many of
// its tokens are certain.
//
// Without stop strings every token is certain at once. With them, a token is certain to belong to
// the answer once all of its text is known to be no part of a stop string. When a stop string is
// found, the tokens whose text begins before the end of the answer's text belong to the answer.
//
// Tested by   tests/decoding/stop_strings_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/stop.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

// Errors   push() and finish(): std::bad_alloc and whatever the source of the text throws
// Threads  one owner
class AnswerText {
 public:
  // Stop strings are not looked for in the text of the first `at_least` tokens.
  AnswerText(decltype(GenerateOptions::text) source, const StopOptions& stop, Index at_least)
      : source_(std::move(source)),
        stop_(stop.stop_strings, stop.include_stop_string),
        holds_back_(!stop.stop_strings.empty()),
        at_least_(static_cast<std::size_t>(std::max<Index>(0, at_least))) {}

  // The next token.
  void push(Token token) {
    const std::string piece = source_ ? source_(token) : std::string();
    ends_.push_back(begin_of(ends_.size()) + piece.size());
    text_ += ends_.size() <= at_least_ ? piece : stop_.push(piece);
    count_certain();
  }

  // The end of the text: nothing is held back any longer, but a stop string may still be found.
  void finish() {
    if (std::exchange(over_, true) || !source_) return;
    if (!stop_.stopped()) text_ += stop_.push(source_(std::nullopt));
    text_ += stop_.finish();
    if (certain_ < ends_.size()) ends_.back() = std::max(ends_.back(), text_.size());
    count_certain();
  }

  // Ends the text after the first `tokens`.
  void cut(std::size_t tokens) {
    over_ = true;
    ends_.resize(tokens);
    text_.resize(std::min(text_.size(), begin_of(tokens)));
    certain_ = std::min(certain_, tokens);
  }

  bool stopped() const noexcept { return stop_.stopped(); }
  const std::string& stop_string() const noexcept { return stop_.stop(); }

  // How many tokens, from the first on, are certain to belong to the answer. After a stop string or
  // the end these are all of its tokens.
  std::size_t certain() const noexcept { return over_ && !stopped() ? ends_.size() : certain_; }

  // Precondition: the token is certain.
  std::string text_of(std::size_t token) const {
    const std::size_t begin = begin_of(token);
    return text_.substr(begin, ends_[token] - begin);
  }
  std::string take() noexcept { return std::move(text_); }

 private:
  std::size_t begin_of(std::size_t token) const noexcept {
    return token == 0 ? 0 : ends_[token - 1];
  }

  void count_certain() noexcept {
    const auto begins_before = [&](std::size_t token) { return begin_of(token) < text_.size(); };
    if (stopped()) {
      while (ends_.size() > at_least_ && !begins_before(ends_.size() - 1)) ends_.pop_back();
      certain_ = ends_.size();
    }
    const auto is_certain = [&](std::size_t token) {
      return !holds_back_ || token < at_least_ ||
             (begins_before(token) && ends_[token] <= text_.size());
    };
    while (certain_ < ends_.size() && is_certain(certain_)) certain_ += 1;
  }

  decltype(GenerateOptions::text) source_;
  StopText stop_;
  bool holds_back_;
  std::size_t at_least_;
  bool over_ = false;
  std::string text_;               // the text that is certain
  std::vector<std::size_t> ends_;  // where the text of each token ends
  std::size_t certain_ = 0;        // tokens that are certain
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
