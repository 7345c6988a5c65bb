// decant/text/detail/merges.hpp - the merges of byte-pair encoding: listed by a file, or implied by
// scores.
//
// A SentencePiece model of the BPE kind lists no merges: of all neighbours whose joined text is a
// token, those of the highest score are joined first, the leftmost of equals. That is what Bpe does
// when every way to cut a token into two tokens is a merge, ranked by the score of the joined text.
//
// Source      Kudo and Richardson 2018, "SentencePiece", arXiv:1808.06226
// Tested by   tests/text/bpe_test.cpp, tests/text/gguf_tokenizer_test.cpp, and
//             tests/text/score_merges_test.cpp against a loop that searches all merges each time
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// Two neighbours that may become one token. The lowest rank goes first, the leftmost of equals.
struct BpeMerge {
  Token left, right, merged;
  std::int32_t rank;
};

// The two parts of "a b", with exactly one space: with more it would not be clear which one divides
// them.
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

// A cut is looked for at every character of a token, so the length of tokens is bounded.
inline constexpr std::size_t kMaxScoredToken = 1024;  // bytes

// All merges; `mergeable(id)` says which tokens take part. A token without a score counts 0.
//
// Errors   FormatError naming `place`: a token that takes part and is too long
// Cost     a look-up for every character of every token
template <class Mergeable>
std::vector<BpeMerge> merges_by_score(const Vocabulary& vocabulary, std::span<const double> scores,
                                      Mergeable&& mergeable, std::string_view place) {
  const auto score_of = [&](Token id) {
    return scores.empty() ? 0.0 : scores[static_cast<std::size_t>(id)];
  };
  // A rank counts the higher scores, so that equal scores are equal ranks.
  std::vector<double> sorted(scores.begin(), scores.end());
  std::ranges::sort(sorted, std::greater<>());
  const auto rank_of = [&](Token id) {
    const auto at = std::ranges::lower_bound(sorted, score_of(id), std::greater<>());
    return static_cast<std::int32_t>(at - sorted.begin());
  };
  const auto part = [&](std::string_view text) -> std::optional<Token> {
    const std::optional<Token> id = vocabulary.find(text);
    return id && mergeable(*id) ? id : std::nullopt;
  };

  std::vector<BpeMerge> merges;
  for (Token id = 0; id < vocabulary.size(); ++id) {
    const std::string* text = vocabulary.find(id);
    if (text == nullptr || !mergeable(id)) continue;
    expects<FormatError>(text->size() <= kMaxScoredToken, place, ": the token ", id, " has ",
                         text->size(), " bytes, more than ", kMaxScoredToken);
    const std::string_view whole = *text;
    for (std::size_t at = files::read_utf8(whole, 0).length; at < whole.size();
         at += files::read_utf8(whole, at).length) {
      const std::optional<Token> left = part(whole.substr(0, at));
      const std::optional<Token> right = left ? part(whole.substr(at)) : std::nullopt;
      if (right) merges.push_back({*left, *right, id, rank_of(id)});
    }
  }
  return merges;
}

}  // namespace decant::inline DECANT_ABI::text::detail
