// tests/fuzz/tokenizer_target.hpp - one tokenizer.json of unknown worth, read and used.
#pragma once

#include <decant/files/utf8.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace decant::fuzz {

inline void expect(bool held) {
  if (!held) std::terminate();
}

// Encodes and decodes `text`: ids within the vocabulary, valid UTF-8, and a stream that adds up.
inline void use(const text::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<Token> ids = tokenizer.encode(text);
  for (const Token id : ids) expect(id >= 0 && id < tokenizer.vocabulary());
  text::TextStream stream(tokenizer);
  std::string sum;
  for (const Token id : ids) {
    const std::string piece = stream.push(id);
    expect(!files::find_invalid_utf8(piece));
    sum += piece;
  }
  expect(sum + stream.finish() == tokenizer.decode(ids));
}

// Whether `json` is a tokenizer. Anything but a tokenizer that works or a FormatError is a fault of
// the reader.
inline bool accepts_tokenizer(std::string_view json) {
  try {
    const text::Tokenizer tokenizer = text::Tokenizer::parse(json, "tokenizer.json");
    for (const char* text : {"", "a", " Hello  world\n\n", "ab aab 12 345's", "<s>a</s> <s>",
                             "caf\u00e9 e\u0301 \u65e5\u672c \U0001F44D \u2581\uFFFD"}) {
      use(tokenizer, text);
    }
    for (Token id = 0; id < 300; ++id)
      expect(!files::find_invalid_utf8(tokenizer.decode({&id, 1})));
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace decant::fuzz
