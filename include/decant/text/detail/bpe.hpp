// decant/text/detail/bpe.hpp - byte-pair encoding of one piece: the "model" of a tokenizer.json.
//
// A piece starts as one token per character and merges, again and again, the neighbours that
// the file lists first, the leftmost of equals. A heap of candidate merges over a linked list makes
// that O(n log n), so a piece may be a whole book (a SentencePiece-style file has no
// pre-tokeniser).
//
// A character without a token becomes its bytes (byte_fallback, if the vocabulary has all of them),
// else the unknown token, else nothing.
//
// Source      Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
//             arXiv:1508.07909; the format as Hugging Face's tokenizers library writes it
// Tested by   tests/text/bpe_test.cpp, against a loop that searches for the best merge each time
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/merges.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

// Memory that one encoding reuses from piece to piece.
struct BpeScratch {
  struct Symbol {
    Token id;  // -1 once merged into the symbol before it
    std::int32_t previous;
    std::int32_t next;
  };
  struct Candidate {
    std::int32_t rank;
    std::int32_t at;
    Token merged;
  };

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

struct BpeOptions {
  bool fuse_unknown = false;   // a run of unknown characters is one unknown token
  bool byte_fallback = false;  // a character without a token becomes tokens <0x00> to <0xFF>
  bool ignore_merges = false;  // a piece that is a token stays one
};

// Errors   from read: FormatError naming the field (a merge of absent tokens, a spelling of merges
//          that is ambiguous, an option that is not supported)
// Threads  immutable; a scratch belongs to one encoding
class Bpe {
 public:
  Bpe() = default;
  // Of a merge that is listed twice the last one counts, as in the format's own library.
  Bpe(Vocabulary vocabulary, std::span<const BpeMerge> merges, const BpeOptions& options)
      : vocabulary_(std::move(vocabulary)), options_(options) {
    merges_.reserve(merges.size());
    for (const BpeMerge& merge : merges) add(merge);
    find_byte_tokens();
  }
  static Bpe read(const files::JsonObject& model) {
    Bpe bpe;
    bpe.read_options(model);
    bpe.read_vocabulary(model);
    bpe.read_merges(model);
    bpe.find_byte_tokens();
    return bpe;
  }

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  // The text of the unknown token, which may be an added one; its id is set before encoding.
  const std::optional<std::string>& unknown_text() const noexcept { return unknown_text_; }
  void set_unknown(Token id) noexcept { unknown_ = id; }

  // Appends the tokens of `piece`, valid UTF-8 of less than 2^31 characters.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<Token>& tokens) const {
    if (options_.ignore_merges) {
      if (const auto whole = vocabulary_.find(piece)) return tokens.push_back(*whole);
    }
    split(piece, scratch.symbols);
    merge(scratch);
    for (const auto& symbol : scratch.symbols) {
      if (symbol.id >= 0) tokens.push_back(symbol.id);
    }
  }

 private:
  struct Merge {
    std::int32_t rank;
    Token merged;
  };
  using Symbols = std::vector<BpeScratch::Symbol>;

  // --- reading ---

  void read_options(const files::JsonObject& model) {
    const std::string type = model.text_or("type", "BPE");
    expects<FormatError>(type == "BPE", model.place("type"), " is \"", files::printable(type),
                         "\", a model that is not known here");
    for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      expects<FormatError>(model.text_or(affix, "").empty(), model.place(affix),
                           " is not empty, which is not supported");
    }
    expects<FormatError>(model.number_or("dropout", 0.0) == 0.0, model.place("dropout"),
                         " is not 0: encoding would be random");
    if (model.has("unk_token")) unknown_text_ = model.text("unk_token");
    options_ = {model.flag_or("fuse_unk", false), model.flag_or("byte_fallback", false),
                model.flag_or("ignore_merges", false)};
  }

  void read_vocabulary(const files::JsonObject& model) {
    expects<FormatError>(model.at("vocab").is_object(), model.place("vocab"),
                         " is not an object of tokens and ids");
    const std::string place = model.place("vocab");
    for (const auto& [text, id] : model.at("vocab").items()) {
      vocabulary_.add(text, files::JsonObject::as_integer(id, place), place);
    }
  }

  void read_merges(const files::JsonObject& model) {
    const files::Json& list = model.at("merges");
    expects<FormatError>(list.is_array(), model.place("merges"), " is not an array");
    merges_.reserve(list.size());
    std::int32_t rank = 0;
    for (const files::Json& entry : list) {
      const std::string place = sentence(model.place("merges"), "[", rank, "]");
      const auto [left, right] = read_merge(entry, place);
      const auto token_of = [&](const std::string& text) {
        return part_of_merge(vocabulary_, text, place);
      };
      const Token merged = token_of(left + right);
      add({token_of(left), token_of(right), merged, rank});
      rank += 1;
    }
  }

  // Either ["a", "b"], or "a b".
  static std::pair<std::string, std::string> read_merge(const files::Json& entry,
                                                        std::string_view place) {
    if (entry.is_array()) {
      expects<FormatError>(entry.size() == 2, place, " has ", entry.size(), " parts, not 2");
      return {files::JsonObject::as_text(entry[0], place),
              files::JsonObject::as_text(entry[1], place)};
    }
    const std::string text = files::JsonObject::as_text(entry, place);
    const auto [left, right] = merge_parts(text, place);
    return {std::string(left), std::string(right)};
  }

  void add(const BpeMerge& merge) {
    merges_[merge_key(merge.left, merge.right)] = {merge.rank, merge.merged};
  }

  void find_byte_tokens() {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::string text = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
      byte_tokens_[byte] = vocabulary_.find(text).value_or(-1);
    }
  }

  // --- encoding ---

  void split(std::string_view piece, Symbols& symbols) const {
    symbols.clear();
    bool after_unknown = false;
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view character = piece.substr(at, files::read_utf8(piece, at).length);
      at += character.size();
      if (push_known(character, symbols)) {
        after_unknown = false;
      } else if (unknown_ >= 0) {
        if (!after_unknown || !options_.fuse_unknown) push(unknown_, symbols);
        after_unknown = true;
      }
    }
    if (!symbols.empty()) symbols.back().next = -1;
  }

  bool push_known(std::string_view character, Symbols& symbols) const {
    if (const auto id = vocabulary_.find(character)) {
      push(*id, symbols);
      return true;
    }
    const auto token_of_byte = [&](char byte) {
      return byte_tokens_[static_cast<std::uint8_t>(byte)];
    };
    const bool has_all = std::all_of(character.begin(), character.end(),
                                     [&](char byte) { return token_of_byte(byte) >= 0; });
    if (!options_.byte_fallback || !has_all) return false;
    for (const char byte : character) push(token_of_byte(byte), symbols);
    return true;
  }

  static void push(Token id, Symbols& symbols) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  }

  void merge(BpeScratch& scratch) const {
    auto& [symbols, heap] = scratch;
    heap.clear();
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      if (const Merge* found = merge_at(symbols, static_cast<std::int32_t>(at))) {
        heap.push_back({found->rank, static_cast<std::int32_t>(at), found->merged});
      }
    }
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const BpeScratch::Candidate best = heap.back();
      heap.pop_back();
      // What stands there may have changed since; the merge counts if it still makes that token.
      const Merge* now = merge_at(symbols, best.at);
      if (now == nullptr || now->merged != best.merged) continue;
      join(symbols, best.at, best.merged);
      offer(scratch, symbols[static_cast<std::size_t>(best.at)].previous);
      offer(scratch, best.at);
    }
  }

  static bool later(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void offer(BpeScratch& scratch, std::int32_t at) const {
    if (const Merge* found = merge_at(scratch.symbols, at)) {
      scratch.heap.push_back({found->rank, at, found->merged});
      std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
    }
  }

  // The merge of the symbol at `at` with the one after it, if there are both and one.
  const Merge* merge_at(const Symbols& symbols, std::int32_t at) const {
    if (at < 0) return nullptr;
    const auto& left = symbols[static_cast<std::size_t>(at)];
    if (left.id < 0 || left.next < 0) return nullptr;
    const Token right = symbols[static_cast<std::size_t>(left.next)].id;
    const auto found = merges_.find(merge_key(left.id, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

  static void join(Symbols& symbols, std::int32_t at, Token merged) {
    auto& left = symbols[static_cast<std::size_t>(at)];
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    left.id = merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = at;
  }

  static std::uint64_t merge_key(Token left, Token right) noexcept {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  Vocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<Token, 256> byte_tokens_{};
  std::optional<std::string> unknown_text_;
  Token unknown_ = -1;
  BpeOptions options_;
};

}  // namespace decant::inline DECANT_ABI::text::detail
