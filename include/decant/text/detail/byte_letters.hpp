// decant/text/detail/byte_letters.hpp - one visible letter for each byte, as GPT-2's vocabulary
// spells them.
//
// A byte-level vocabulary is written down as text, so every byte needs a character that is no
// control and no space. Printable Latin-1 stands for itself; the other 68 bytes take U+0100 and up
// in their order.
//
// Source      Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
//             2.2, and the encoder published with it
// Tested by   tests/text/bpe_test.cpp
#pragma once

#include <decant/files/utf8.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace decant::inline v0::text::detail {

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

}  // namespace decant::inline v0::text::detail
