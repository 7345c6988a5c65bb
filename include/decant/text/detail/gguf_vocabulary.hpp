// decant/text/detail/gguf_vocabulary.hpp - the tokens of a GGUF file: their texts, and what kind
// each is.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md), "Tokenizer"
// Tested by   tests/text/gguf_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/added_tokens.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// In the order in which files number them. What is undefined is treated as normal.
enum class GgufToken { undefined, normal, unknown, control, user_defined, unused, byte };

// Errors   FormatError naming file and key: lists of different lengths, a kind that is none, text
//          that is not UTF-8, a text given twice
class GgufVocabulary {
 public:
  explicit GgufVocabulary(const files::GgufMetadata& metadata) {
    const std::vector<std::string_view> texts = metadata.texts(kTokens);
    const std::string place = metadata.place(kTokens);
    for (std::size_t id = 0; id < texts.size(); ++id) {
      expects<FormatError>(!files::find_invalid_utf8(texts[id]), place, ": the token ", id,
                           " is not UTF-8");
      if (texts[id].empty()) continue;  // an id without a token
      vocabulary_.add(std::string(texts[id]), static_cast<Index>(id), place);
    }
    if (metadata.has(kKinds)) kinds_ = metadata.integers(kKinds);
    expects<FormatError>(kinds_.empty() || kinds_.size() == texts.size(), metadata.place(kKinds),
                         " has ", kinds_.size(), " entries for ", texts.size(), " tokens");
    for (const Index kind : kinds_) {
      expects<FormatError>(kind >= 0 && kind <= static_cast<Index>(GgufToken::byte),
                           metadata.place(kKinds), " has the kind ", kind, ", not in [0, 6]");
    }
  }

  const Vocabulary& vocabulary() const& noexcept { return vocabulary_; }
  Vocabulary vocabulary() && noexcept { return std::move(vocabulary_); }

  GgufToken kind(Token id) const {
    if (kinds_.empty()) return GgufToken::normal;
    return static_cast<GgufToken>(kinds_[static_cast<std::size_t>(id)]);
  }

  // Those that are found in a text before anything is merged.
  std::vector<AddedToken> added() const {
    std::vector<AddedToken> added;
    for (Token id = 0; id < vocabulary_.size(); ++id) {
      const std::string* text = vocabulary_.find(id);
      const bool user = kind(id) == GgufToken::user_defined;
      const bool special = kind(id) == GgufToken::control || kind(id) == GgufToken::unknown;
      if (text == nullptr || (!user && !special)) continue;
      added.push_back({.id = id,
                       .content = *text,
                       .spelling = *text,
                       .single_word = false,
                       .lstrip = false,
                       .rstrip = false,
                       .normalized = false,
                       .special = special});
    }
    return added;
  }

  static constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  static constexpr std::string_view kKinds = "tokenizer.ggml.token_type";

 private:
  Vocabulary vocabulary_;
  std::vector<Index> kinds_;  // of all ids; empty where the file says nothing
};

}  // namespace decant::inline DECANT_ABI::text::detail
