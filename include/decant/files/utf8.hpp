// decant/files/utf8.hpp - UTF-8 that may be wrong, cut, or arrive byte by byte.
//
// Tokens of a byte-level vocabulary end in the middle of characters, and a model may emit bytes
// that are no text at all. One reader of single characters serves everything here; what cannot be
// read becomes U+FFFD, one for each maximal subpart, as browsers and Python do it.
//
// Source      The Unicode Standard 15.0, section 3.9: table 3-7, "Substitution of Maximal Subparts"
// Tested by   tests/files/utf8_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI::files {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What stands at one place of a text.
//
// Units    length counts bytes, at least 1: of the character, of the maximal subpart that cannot
//          become one (broken), or of the well-formed start that the text ends in (cut)
struct Utf8Unit {
  enum Kind { whole, broken, cut } kind;
  std::size_t length;
  char32_t code;  // of a whole character
};

// Reads at `at` < text.size().
constexpr Utf8Unit read_utf8(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Unit::whole, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Unit::broken, 1, 0};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Only the second byte has narrower bounds: no overlong forms, no surrogates, no code point
  // beyond U+10FFFF.
  std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {Utf8Unit::cut, i, 0};
    if (byte(i) < low || byte(i) > high) return {Utf8Unit::broken, i, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Unit::whole, length, code};
}

// The offset of the first byte that belongs to no character, if there is one.
constexpr std::optional<Index> find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = read_utf8(text, at);
    if (unit.kind != Utf8Unit::whole) return static_cast<Index>(at);
    at += unit.length;
  }
  return std::nullopt;
}

// Text from a file as a sentence may show it: well-formed, without control characters and changes
// of direction, and cut after `most` bytes.
inline std::string printable(std::string_view text, std::size_t most = 200) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= most) return shown + "...";
    const Utf8Unit unit = read_utf8(text, at);
    const char32_t code = unit.code;
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0) ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    if (unit.kind != Utf8Unit::whole) {
      shown += kReplacement;
    } else if (control) {
      shown += '?';
    } else {
      shown += text.substr(at, unit.length);
    }
    at += unit.length;
  }
  return shown;
}

// How sentences name a file: its path, on one line.
inline std::string printable_path(const std::filesystem::path& path) {
  return printable(path.string(), 4096);
}

// Adds the character of a Unicode scalar value.
constexpr void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// Bytes in, valid UTF-8 out: a half-finished character waits for its rest, and becomes U+FFFD when
// something else comes, or the end.
//
// Cost     push is linear in the bytes pushed; at most 3 bytes are ever held
// Threads  one stream at a time
class Utf8Stream {
 public:
  std::string push(std::string_view bytes) {
    held_.append(bytes);
    std::string text;
    std::size_t at = 0;
    while (at < held_.size()) {
      const Utf8Unit unit = read_utf8(held_, at);
      if (unit.kind == Utf8Unit::cut) break;
      text.append(unit.kind == Utf8Unit::whole ? std::string_view(held_).substr(at, unit.length)
                                               : kReplacement);
      at += unit.length;
    }
    held_.erase(0, at);
    return text;
  }

  // What the half-finished character at the end becomes: nothing, or one U+FFFD.
  std::string finish() {
    const bool cut = !held_.empty();
    held_.clear();
    return cut ? std::string(kReplacement) : std::string();
  }

 private:
  std::string held_;
};

}  // namespace decant::inline DECANT_ABI::files
