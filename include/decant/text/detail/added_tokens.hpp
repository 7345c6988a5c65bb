// decant/text/detail/added_tokens.hpp - tokens that are found in the text itself, before any
// merging: the "added_tokens" of a tokenizer.json.
//
// They are looked for twice: those with normalized = false in the raw text, the others in each
// fragment that is left, after its normalisation (and by their own normalised spelling). From left
// to right the longest one wins.
//
// Source      the format as Hugging Face's tokenizers library writes it
// Tested by   tests/text/added_tokens_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/normalizer.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include <unicode/uchar.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

struct AddedToken {
  Token id;
  std::string content;
  std::string spelling;  // content as it stands in the text that is searched
  bool single_word;      // not beside a letter or digit
  bool lstrip, rstrip;   // takes the white space before, behind
  bool normalized;
  bool special;  // means something to the model, not to the reader
};

inline bool is_space(char32_t code) { return u_isUWhiteSpace(static_cast<UChar32>(code)); }
inline bool is_word(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  constexpr std::uint32_t kInWords = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(c) || (U_GET_GC_MASK(c) & kInWords) != 0 || c == 0x200C || c == 0x200D;
}

// The start of the character that ends before `at` > 0, in valid UTF-8.
inline std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while ((static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

// Finds the tokens of one set in texts.
//
// Cost     linear in the text times the longest spelling, at worst
// Threads  immutable
class AddedTokenSearch {
 public:
  // A stretch [begin, end) of the text; a token, or plain text where there is none.
  struct Fragment {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;
  };

  AddedTokenSearch() = default;
  // `tokens` must outlive the search.
  explicit AddedTokenSearch(std::vector<const AddedToken*> tokens) : tokens_(std::move(tokens)) {
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [](const auto* a, const auto* b) { return a->spelling < b->spelling; });
    for (const AddedToken* token : tokens_) {
      if (!token->spelling.empty()) first_bytes_.set(static_cast<std::uint8_t>(token->spelling[0]));
    }
  }

  // The fragments of valid UTF-8, in order; none is empty, together they are the text.
  std::vector<Fragment> operator()(std::string_view text) const {
    std::vector<Fragment> fragments;
    std::size_t from = 0;  // where the plain text begins that is not yet in a fragment
    for (std::size_t at = 0; at < text.size();) {
      const AddedToken* token = longest_at(text, at);
      if (token == nullptr) {
        at += 1;
        continue;
      }
      const std::size_t end = at + token->spelling.size();
      if (token->single_word && !stands_alone(text, at, end)) {
        at = end;
        continue;
      }
      const std::size_t begin = token->lstrip ? spaces_before(text, at, from) : at;
      at = token->rstrip ? spaces_behind(text, end) : end;
      if (from < begin) fragments.push_back({from, begin, nullptr});
      fragments.push_back({begin, at, token});
      from = at;
    }
    if (from < text.size()) fragments.push_back({from, text.size(), nullptr});
    return fragments;
  }

 private:
  // Walks down the sorted spellings as down a trie: [low, high) are those that begin as the text.
  const AddedToken* longest_at(std::string_view text, std::size_t at) const {
    if (!first_bytes_[static_cast<std::uint8_t>(text[at])]) return nullptr;
    const AddedToken* found = nullptr;
    auto low = tokens_.begin(), high = tokens_.end();
    for (std::size_t depth = 0; low != high && at + depth < text.size(); ++depth) {
      const char byte = text[at + depth];
      const auto before = [&](const AddedToken* token) { return order(*token, depth, byte) < 0; };
      const auto within = [&](const AddedToken* token) { return order(*token, depth, byte) <= 0; };
      low = std::partition_point(low, high, before);
      high = std::partition_point(low, high, within);
      if (low != high && (*low)->spelling.size() == depth + 1) found = *low;
    }
    return found;
  }

  // Negative where the byte of a spelling at `depth` sorts before `byte` (as does its end).
  static int order(const AddedToken& token, std::size_t depth, char byte) {
    if (token.spelling.size() <= depth) return -1;
    return int{static_cast<std::uint8_t>(token.spelling[depth])} - static_cast<std::uint8_t>(byte);
  }

  static bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
    const auto word_at = [&](std::size_t at) { return is_word(files::read_utf8(text, at).code); };
    return (begin == 0 || !word_at(character_before(text, begin))) &&
           (end == text.size() || !word_at(end));
  }
  static std::size_t spaces_before(std::string_view text, std::size_t at, std::size_t from) {
    while (at > from) {
      const std::size_t before = character_before(text, at);
      if (before < from || !is_space(files::read_utf8(text, before).code)) break;
      at = before;
    }
    return at;
  }
  static std::size_t spaces_behind(std::string_view text, std::size_t at) {
    while (at < text.size() && is_space(files::read_utf8(text, at).code)) {
      at += files::read_utf8(text, at).length;
    }
    return at;
  }

  std::vector<const AddedToken*> tokens_;  // sorted by spelling
  std::bitset<256> first_bytes_;
};

// All added tokens of a file.
//
// Errors   from read: FormatError: wrong fields, empty content, a text or an id given twice, or
//          differently than in the model's vocabulary
// Threads  immutable
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;  // no copies: the tables point into the list
  AddedTokens& operator=(AddedTokens&&) = default;
  static AddedTokens read(const files::JsonObject& file, const Vocabulary& model,
                          const Normalizer& normalizer) {
    AddedTokens added;
    for (const files::JsonObject& entry : file.objects("added_tokens")) {
      added.add(read_token(entry, normalizer), model, entry.place("id"));
    }
    added.index();
    return added;
  }
  // Of tokens that are no field of their own; `place` is how sentences name them.
  static AddedTokens of(std::vector<AddedToken> tokens, const Vocabulary& model,
                        std::string_view place) {
    AddedTokens added;
    for (AddedToken& token : tokens) added.add(std::move(token), model, place);
    added.index();
    return added;
  }

  Index size() const noexcept { return names_.size(); }  // the highest id plus 1
  std::optional<Token> find(std::string_view content) const { return names_.find(content); }
  const AddedToken* find(Token id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  // The searches of one text: for all added tokens, or for those that are not special.
  struct Searches {
    AddedTokenSearch raw, normalized;
  };
  const Searches& in_text(bool special) const noexcept { return special ? all_ : plain_; }

 private:
  static AddedToken read_token(const files::JsonObject& entry, const Normalizer& normalizer) {
    const Index id = entry.integer("id");
    expects<FormatError>(id >= 0 && id < kMaxVocabulary, entry.place("id"), " is ", id,
                         ", outside [0, ", kMaxVocabulary, ")");
    std::string content = entry.text("content");
    expects<FormatError>(!content.empty(), entry.place("content"), " is empty");
    const bool normalized = entry.flag_or("normalized", false);
    std::string spelling = normalized ? normalizer(content) : content;
    return {static_cast<Token>(id),
            std::move(content),
            std::move(spelling),
            entry.flag_or("single_word", false),
            entry.flag_or("lstrip", false),
            entry.flag_or("rstrip", false),
            normalized,
            entry.flag_or("special", false)};
  }

  void add(AddedToken token, const Vocabulary& model, std::string_view place) {
    names_.add(token.content, token.id, place);
    expects_agreement(model, token, place);
    tokens_.push_back(std::move(token));
  }

  static void expects_agreement(const Vocabulary& model, const AddedToken& token,
                                std::string_view place) {
    const std::optional<Token> id = model.find(token.content);
    expects<FormatError>(!id || *id == token.id, place, " is ", token.id, ", but \"",
                         files::printable(token.content), "\" has the id ", id.value_or(0),
                         " in the vocabulary");
    const std::string* other = model.find(token.id);
    expects<FormatError>(other == nullptr || *other == token.content, place, " is ", token.id,
                         ", which is \"", other == nullptr ? "" : files::printable(*other),
                         "\" in the vocabulary");
  }

  void index() {
    for (const AddedToken& token : tokens_) by_id_.emplace(token.id, &token);
    all_ = searches([](const AddedToken&) { return true; });
    plain_ = searches([](const AddedToken& token) { return !token.special; });
  }
  template <class F>
  Searches searches(F&& wanted) const {
    std::vector<const AddedToken*> raw, normalized;
    for (const AddedToken& token : tokens_) {
      if (wanted(token)) (token.normalized ? normalized : raw).push_back(&token);
    }
    return {AddedTokenSearch(std::move(raw)), AddedTokenSearch(std::move(normalized))};
  }

  std::vector<AddedToken> tokens_;
  Vocabulary names_;
  std::unordered_map<Token, const AddedToken*> by_id_;
  Searches all_, plain_;
};

}  // namespace decant::inline DECANT_ABI::text::detail
