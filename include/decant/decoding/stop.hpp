// decant/decoding/stop.hpp - when a text ends: at a token, or at a string that may span tokens.
//
// StopOptions name both; the tokens are the model's own end tokens (a checkpoint may name several)
// and those that the caller adds. StopText looks at text alone; what it releases is the same
// however the text is cut into pieces.
//
// Tested by   tests/decoding/stop_{tokens,text,strings}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/penalties.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// What ends a run. An end or stop token is not part of the answer.
struct StopOptions {
  std::vector<Token> end_tokens = {};   // the model's; ids outside its vocabulary never occur
  std::vector<Token> stop_tokens = {};  // the caller's; they act even where end tokens are ignored
  bool ignore_end_tokens = false;       // end tokens are then text like others
  // The run ends when one of them is in its text, so they need GenerateOptions::text. Tokens whose
  // text may be part of one are held back: the sink gets them once it is certain that they are not.
  std::vector<std::string> stop_strings = {};
  bool include_stop_string = false;  // whether the answer includes the stop string that ended it
  // Until the answer has this many tokens, no end or stop token is sampled, and stop strings are
  // not looked for: one counts only if it begins after the text of those tokens.
  Index min_new_tokens = 0;

  bool is_end(Token token) const {
    return !ignore_end_tokens && std::ranges::count(end_tokens, token) > 0;
  }
  bool is_stop(Token token) const { return std::ranges::count(stop_tokens, token) > 0; }

  // Makes what would end the run impossible while fewer than min_new_tokens were generated.
  //
  // Shape    logits are [vocabulary]
  void ban_early(std::span<float> logits, Index generated) const {
    if (generated >= min_new_tokens) return;
    if (!ignore_end_tokens) ban(logits, end_tokens);
    ban(logits, stop_tokens);
  }
};

// Releases the text before the first stop string. What may still become a stop is held back;
// of several stops the one that starts first wins, of those that start together the shortest.
//
// Units    bytes; a stop of valid UTF-8 never divides a character
// Errors   std::invalid_argument from the constructor on an empty stop, which would match at once
// Cost     push is O((piece + longest stop) * length of all stops); less than the longest stop is
//          held
// Threads  as a std::string
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops, bool include_stop = false)
      : stops_(std::move(stops)), include_stop_(include_stop) {
    for (const std::string& stop : stops_) {
      expects(!stop.empty(), "decoding::StopText: an empty stop string");
    }
  }

  // True once a stop was seen; nothing more is released then.
  bool stopped() const noexcept { return !stop_.empty(); }
  // The stop that was seen, or nothing.
  const std::string& stop() const noexcept { return stop_; }

  // The text that is safe to show after this piece.
  std::string push(std::string_view piece) {
    if (stopped()) return {};
    held_ += piece;
    return release(false);
  }

  // The rest, at the end of the text: what was held back can no longer become a stop, but
  // another stop may lie in it.
  std::string finish() { return stopped() ? std::string{} : release(true); }

 private:
  std::string release(bool at_end) {
    const std::size_t start = first_start(at_end);
    const std::string_view rest = std::string_view(held_).substr(start);
    const std::size_t stop = shortest_stop(rest);
    stop_ = rest.substr(0, stop);
    std::string shown = held_.substr(0, start + (include_stop_ ? stop : 0));
    held_.erase(0, start);
    return shown;
  }

  // Where the first stop begins, or what may become one; the length of the text if none does.
  std::size_t first_start(bool at_end) const {
    std::size_t start = 0;
    for (; start < held_.size(); ++start) {
      const std::string_view rest = std::string_view(held_).substr(start);
      if (shortest_stop(rest) > 0 || (!at_end && may_become_stop(rest))) break;
    }
    return start;
  }

  // The length of the shortest stop that `text` begins with, 0 if none.
  std::size_t shortest_stop(std::string_view text) const {
    std::size_t shortest = 0;
    for (const std::string& stop : stops_) {
      if (text.starts_with(stop) && (shortest == 0 || stop.size() < shortest)) {
        shortest = stop.size();
      }
    }
    return shortest;
  }

  bool may_become_stop(std::string_view text) const {
    return std::ranges::any_of(stops_,
                               [text](const std::string& stop) { return stop.starts_with(text); });
  }

  std::vector<std::string> stops_;
  bool include_stop_;
  std::string stop_;
  std::string held_;
};

}  // namespace decant::inline DECANT_ABI::decoding
