// decant/text/detail/pattern.hpp - the two kinds of pattern that a tokenizer.json may hold.
//
// {"String": s} means the characters of s and nothing else, even where they look like an
// expression; {"Regex": s} is a regular expression, written for the Ruby flavour of Oniguruma. ICU
// reads it with the flags that make lines mean the same there. An untrusted file may hold an
// expression that backtracks for ever, so each scan has a budget linear in its text.
//
// Source      Unicode Technical Standard 18; ICU user guide, "Regular Expressions"
// Tested by   tests/text/pre_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>

#include <unicode/parseerr.h>
#include <unicode/regex.h>
#include <unicode/unistr.h>
#include <unicode/utypes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// The bytes [begin, end) of a text.
struct Match {
  std::size_t begin;
  std::size_t end;

  friend bool operator==(const Match&, const Match&) = default;
};

// What to look for. `place` names it in sentences ("tokenizer.json: pre_tokenizer.pattern").
//
// Errors   FormatError: empty literal, expression that is none
// Threads  immutable; copies share the compiled expression, and any number may scan with it
class Pattern {
 public:
  static Pattern literal(std::string text, std::string place) {
    expects<FormatError>(!text.empty(), place, " is an empty string, which matches everywhere");
    return Pattern(std::move(text), nullptr, std::move(place));
  }
  static Pattern regex(std::string_view expression, std::string place) {
    UParseError where;
    UErrorCode status = U_ZERO_ERROR;
    const auto source = icu::UnicodeString::fromUTF8(view(expression));
    std::shared_ptr<const icu::RegexPattern> compiled(
        icu::RegexPattern::compile(source, UREGEX_MULTILINE | UREGEX_UNIX_LINES, where, status));
    expects<FormatError>(U_SUCCESS(status) && compiled != nullptr, place,
                         " is no regular expression that ICU can read: ", u_errorName(status));
    return Pattern({}, std::move(compiled), std::move(place));
  }
  // The "pattern" of a component: {"String": ...} or {"Regex": ...}.
  static Pattern read(const files::JsonObject& component) {
    expects<FormatError>(component.has("pattern"), component.place("pattern"), " is absent");
    const files::JsonObject pattern = *component.object("pattern");
    if (pattern.has("String")) return literal(pattern.text("String"), pattern.place("String"));
    return regex(pattern.text("Regex"), pattern.place("Regex"));
  }

  bool is_regex() const noexcept { return regex_ != nullptr; }
  const std::string& literal_text() const noexcept { return literal_; }
  const std::string& place() const noexcept { return place_; }

 private:
  friend class Scan;

  Pattern(std::string literal, std::shared_ptr<const icu::RegexPattern> regex, std::string place)
      : literal_(std::move(literal)), regex_(std::move(regex)), place_(std::move(place)) {}

  static icu::StringPiece view(std::string_view text) {
    return {text.data(), static_cast<std::int32_t>(text.size())};
  }

  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // null where the pattern is literal
  std::string place_;
};

// The length to which the rewrites of a file may bring a text of `size` bytes: one that multiplies
// it without end is refused instead of followed, and so is one beyond what ICU and BPE can count.
constexpr std::size_t max_rewritten(std::size_t size) noexcept {
  return std::min(4096 + 256 * size, (std::size_t{1} << 30) - 1);
}

// Applies one Pattern to many texts, reusing its memory, which a copy does not share. It must not
// outlive the Pattern.
//
// Threads  one scan at a time
class Scan {
 public:
  explicit Scan(const Pattern& pattern) : pattern_(&pattern) {
    if (!pattern.is_regex()) return;
    UErrorCode status = U_ZERO_ERROR;
    matcher_.reset(pattern.regex_->matcher(status));
    check(status);
  }
  Scan(const Scan& other) : Scan(*other.pattern_) {}
  Scan(Scan&&) noexcept = default;
  Scan& operator=(const Scan& other) { return *this = Scan(other); }
  Scan& operator=(Scan&&) noexcept = default;
  ~Scan() = default;

  // The matches in valid UTF-8 of less than 2^30 bytes, from left to right; they do not overlap,
  // and an empty one does not touch the match before it. Valid until the next call.
  //
  // Errors   FormatError when the expression needs more steps than a linear budget allows
  const std::vector<Match>& operator()(std::string_view text) {
    matches_.clear();
    pattern_->is_regex() ? find_regex(text) : find_literal(text);
    return matches_;
  }

  // `text` with `content` in place of every match.
  //
  // Errors   as above, and FormatError when that is longer than `limit`
  std::string replace(std::string_view text, std::string_view content, std::size_t limit) {
    std::string result;
    std::size_t from = 0;
    for (const Match& match : (*this)(text)) {
      result.append(text.substr(from, match.begin - from)).append(content);
      from = match.end;
      if (result.size() > limit) break;
    }
    result.append(text.substr(from));
    expects<FormatError>(result.size() <= limit, pattern_->place(), " makes a text grow beyond ",
                         limit, " bytes");
    return result;
  }

 private:
  void find_literal(std::string_view text) {
    const std::string& literal = pattern_->literal_;
    for (auto at = text.find(literal); at != text.npos; at = text.find(literal, at)) {
      matches_.push_back({at, at + literal.size()});
      at += literal.size();
    }
  }

  void find_regex(std::string_view text) {
    const auto units = icu::UnicodeString::fromUTF8(Pattern::view(text));
    UErrorCode status = U_ZERO_ERROR;
    allow(units.length(), status);
    matcher_->reset(units);
    Cursor begin{text}, end{text};
    while (matcher_->find(status)) {
      const Match match = {begin.byte_of(matcher_->start(status)),
                           end.byte_of(matcher_->end(status))};
      const bool touches = !matches_.empty() && matches_.back().end == match.end;
      if (match.begin != match.end || !touches) matches_.push_back(match);
    }
    check(status);
  }

  // The budget for a text: ICU holds a stack frame for each turn of a loop like \s+, and
  // counts units of 10,000 steps from one reset to the next.
  void allow(std::int32_t units, UErrorCode& status) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
    const std::int64_t bytes = std::min(kMax, (std::int64_t{8} << 20) + std::int64_t{128} * units);
    if (bytes > stack_bytes_) {
      stack_bytes_ = bytes;
      matcher_->setStackLimit(static_cast<std::int32_t>(bytes), status);
    }
    matcher_->setTimeLimit(64 + units / 16, status);
  }

  // Walks a text in UTF-8 and answers where a UTF-16 offset lies in it; offsets only grow.
  struct Cursor {
    std::string_view text;
    std::int32_t unit = 0;
    std::size_t byte = 0;

    std::size_t byte_of(std::int32_t target) noexcept {
      while (unit < target) {
        const auto lead = static_cast<std::uint8_t>(text[byte]);
        byte += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        unit += lead < 0xF0 ? 1 : 2;
      }
      return byte;
    }
  };

  void check(UErrorCode status) const {
    expects<FormatError>(
        U_SUCCESS(status), pattern_->place(),
        " cannot be matched within its budget of steps and memory: ", u_errorName(status));
  }

  const Pattern* pattern_;
  std::unique_ptr<icu::RegexMatcher> matcher_;
  std::int64_t stack_bytes_ = 0;
  std::vector<Match> matches_;
};

}  // namespace decant::inline DECANT_ABI::text::detail
