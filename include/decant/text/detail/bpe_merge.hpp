// decant/text/detail/bpe_merge.hpp - one merge of byte-pair encoding, and how files spell it.
//
// Tested by   tests/text/bpe_test.cpp, tests/text/gguf_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace decant::inline v0::text::detail {

// Two neighbours that may become one token. The lowest rank goes first, the leftmost of equals.
struct BpeMerge {
  Token left, right, merged;
  std::int32_t rank;
};

// The two parts of "a b", with exactly one space: with more it would be a guess which one divides.
//
// Errors   FormatError naming `place`
inline std::pair<std::string_view, std::string_view> merge_parts(std::string_view text,
                                                                 std::string_view place) {
  const std::size_t space = text.find(' ');
  expects<FormatError>(space != text.npos && text.find(' ', space + 1) == text.npos, place,
                       " is \"", files::printable(text),
                       "\", which is not two parts with one space between");
  return {text.substr(0, space), text.substr(space + 1)};
}

// The token `text` that a merge at `place` speaks of.
//
// Errors   FormatError naming `place`
inline Token part_of_merge(const Vocabulary& vocabulary, std::string_view text,
                           std::string_view place) {
  const std::optional<Token> id = vocabulary.find(text);
  expects<FormatError>(id.has_value(), place, " needs the token \"", files::printable(text),
                       "\", which the vocabulary does not have");
  return *id;
}

}  // namespace decant::inline v0::text::detail
