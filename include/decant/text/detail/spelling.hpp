// decant/text/detail/spelling.hpp - how vocabularies spell bytes and spaces with visible
// characters.
//
// A byte-level vocabulary (GPT-2) is written down as text, so every byte needs a character that is
// no control and no space. Printable Latin-1 stands for itself; the other 68 bytes take U+0100 and
// up in their order. A SentencePiece vocabulary spells a space as a mark: the Metaspace component
// of a tokenizer.json, a pre-tokeniser that writes the mark and a decoder that removes it, with the
// same fields.
//
// Source      Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
//             2.2, and the encoder published with it; Kudo and Richardson 2018, "SentencePiece",
//             arXiv:1808.06226
// Tested by   tests/text/bpe_test.cpp, tests/text/pre_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace decant::inline DECANT_ABI::text::detail {

inline constexpr char32_t kByteLetterEnd = 0x100 + 68;  // every letter is below

struct ByteLetters {
  std::array<char32_t, 256> letter{};
  std::array<std::int16_t, kByteLetterEnd> byte{};  // -1 where a character is no letter
};

constexpr ByteLetters make_byte_letters() {
  ByteLetters table;
  table.byte.fill(-1);
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t letter = visible ? byte : next++;
    table.letter[byte] = letter;
    table.byte[letter] = static_cast<std::int16_t>(byte);
  }
  return table;
}

inline constexpr ByteLetters kByteLetters = make_byte_letters();

// The bytes of `text`, one letter each.
inline std::string to_byte_letters(std::string_view text) {
  std::string letters;
  letters.reserve(text.size() + text.size() / 4);
  for (const char byte : text) {
    files::append_utf8(letters, kByteLetters.letter[static_cast<std::uint8_t>(byte)]);
  }
  return letters;
}

// The bytes that valid UTF-8 spells in letters; nothing if a character of it is no letter.
inline std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string bytes;
  for (std::size_t at = 0; at < letters.size();) {
    const files::Utf8Unit unit = files::read_utf8(letters, at);
    if (unit.code >= kByteLetterEnd || kByteLetters.byte[unit.code] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kByteLetters.byte[unit.code]));
    at += unit.length;
  }
  return bytes;
}

struct Metaspace {
  // Which texts get a mark in front unless they start with one: every fragment between added
  // tokens, the one that opens the whole text, or none.
  enum class Prepend { always, first, never };

  std::string mark;  // one character
  Prepend prepend;
  bool split;  // cut before every mark

  // Errors   FormatError
  static Metaspace read(const files::JsonObject& component) {
    Metaspace fields{component.text("replacement"), read_prepend(component),
                     component.flag_or("split", true)};
    const bool one =
        !fields.mark.empty() && files::read_utf8(fields.mark, 0).length == fields.mark.size();
    expects<FormatError>(one, component.place("replacement"), " is not one character");
    return fields;
  }

 private:
  static Prepend read_prepend(const files::JsonObject& component) {
    // Files of before "prepend_scheme" say the same with "add_prefix_space".
    const bool adds = component.flag_or("add_prefix_space", true);
    const std::string scheme = component.text_or("prepend_scheme", adds ? "always" : "never");
    expects<FormatError>(adds || scheme == "never", component.place("prepend_scheme"), " is \"",
                         files::printable(scheme), "\", which contradicts add_prefix_space");
    if (scheme == "always") return Prepend::always;
    if (scheme == "first") return Prepend::first;
    expects<FormatError>(scheme == "never", component.place("prepend_scheme"), " is \"",
                         files::printable(scheme), "\", not always, first or never");
    return Prepend::never;
  }
};

}  // namespace decant::inline DECANT_ABI::text::detail
