// decant/text/detail/vocabulary.hpp - texts and ids of tokens, both ways.
//
// Ids come from files and need not be dense; a hole is an id without a token, as the padded rows
// of an embedding are.
//
// Tested by   tests/text/bpe_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/utf8.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// Ids beyond any vocabulary in use, so that one bad number in a file cannot ask for gigabytes.
inline constexpr Index kMaxVocabulary = Index{1} << 22;

// Units    size counts ids: the highest one plus 1
// Cost     look-ups are O(1) in the number of tokens
// Threads  as a std::vector. Move-only: ids refer to texts by address
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Errors   FormatError naming `place`: id outside [0, kMaxVocabulary), or text or id taken
  void add(std::string text, Index id, std::string_view place) {
    if (id < 0 || id >= kMaxVocabulary) {
      throw FormatError(sentence(place, ": the id ", id, " of \"", files::printable(text),
                                 "\" lies outside [0, ", kMaxVocabulary, ")"));
    }
    if (const std::string* other = find(static_cast<Token>(id))) {
      throw FormatError(sentence(place, ": the id ", id, " is given to \"",
                                 files::printable(*other), "\" and to \"", files::printable(text),
                                 "\""));
    }
    const auto [entry, fresh] = ids_.try_emplace(std::move(text), static_cast<Token>(id));
    if (!fresh) {
      throw FormatError(sentence(place, ": the token \"", files::printable(entry->first),
                                 "\" has the ids ", entry->second, " and ", id));
    }
    if (id >= size()) texts_.resize(static_cast<std::size_t>(id) + 1, nullptr);
    texts_[static_cast<std::size_t>(id)] = &entry->first;
  }

  Index size() const noexcept { return static_cast<Index>(texts_.size()); }

  // The text of an id; null for an id without one.
  const std::string* find(Token id) const noexcept {
    return id >= 0 && id < size() ? texts_[static_cast<std::size_t>(id)] : nullptr;
  }
  std::optional<Token> find(std::string_view text) const {
    const auto entry = ids_.find(text);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  std::unordered_map<std::string, Token, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> texts_;  // into the keys of ids_, which stay where they are
};

}  // namespace decant::inline DECANT_ABI::text::detail
