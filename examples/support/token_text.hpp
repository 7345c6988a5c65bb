// examples/support/token_text.hpp - the bytes of a token, which may be part of a character, as
// text.
//
// Tested by   tests/examples/agreements.cmake
#pragma once

#include <decant/files/utf8.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace examples {

// In valid UTF-8: U+FFFD stands for bytes that are no character.
inline std::string valid_utf8(std::string_view bytes) {
  decant::files::Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text += stream.finish();
}

// For a terminal: \xE2 stands for a byte of no whole character, and \n for a line's end.
inline std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const decant::files::Utf8Unit unit = decant::files::read_utf8(bytes, at);
    const std::string_view part = bytes.substr(at, unit.length);
    at += unit.length;
    if (part == "\n") {
      text += "\\n";
    } else if (unit.kind == decant::files::Utf8Unit::whole) {
      text += decant::files::printable(part);
    } else {
      for (const char byte : part) {
        const auto value = static_cast<unsigned char>(byte);
        text += {'\\', 'x', kDigits[value / 16u], kDigits[value % 16u]};
      }
    }
  }
  return text;
}

}  // namespace examples
