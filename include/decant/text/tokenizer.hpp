// decant/text/tokenizer.hpp - text to token ids and back, as a checkpoint's tokenizer says.
//
// Read are byte-level BPE files (GPT-2, Llama 3, Qwen) and SentencePiece-style ones (Llama 2,
// Mistral, Gemma), from a tokenizer.json or from GGUF. A component that is not known is refused by
// name: a tokenizer that is almost right gives a model almost the text it was trained on, and
// nobody notices. Truncation and padding, which a file may ask for, are not applied.
//
// Source      the format as Hugging Face's tokenizers library (0.23) writes and reads it
// Tested by   tests/text/tokenizer_test.cpp, tests/text/malformed_tokenizer_test.cpp,
//             tests/fuzz/tokenizer_target.hpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::files {
class Gguf;
}

namespace decant::inline DECANT_ABI::text {

namespace detail {
struct TokenizerParts;
}

struct EncodeOptions {
  bool add_special = true;  // those that the file puts around a text
  // Special tokens that stand in the text are found there. Of text that users give they should not
  // be: "<|im_end|>" is then ten characters.
  bool find_special = true;
};

// Copies share one set of parts.
//
// Units    ids; a hole in the ids is an id without a token
// Threads  immutable: any number may encode and decode at once
class Tokenizer {
 public:
  // Errors   FormatError naming file and field
  static Tokenizer open(const std::filesystem::path& tokenizer_json);
  // The same from the text of such a file; `name` stands for its path in sentences. `config` is the
  // text of the tokenizer_config.json beside it, which may add tokens.
  static Tokenizer parse(std::string_view json, std::string_view name,
                         std::string_view config = {});

  // One more than the highest id.
  Index vocabulary() const noexcept;
  std::optional<Token> id_of(std::string_view text) const;
  // The token as the file spells it (a byte-level one in letters); nothing for a hole.
  std::optional<std::string_view> spelling(Token id) const;
  // The bytes that a token stands for within a text, such as " the" or part of a character: the
  // `bytes` of OpenAI's log-probabilities. Nothing for a hole.
  //
  // Errors   FormatError: a replacement of the file that grows too much
  std::optional<std::string> bytes_of(Token id) const;
  // The ids below `vocabulary`, that of a model, without a token: of a vocabulary that was padded,
  // or holes. Sampled, they would be answers without text.
  std::vector<Token> unused_ids(Index vocabulary) const;
  // The first id that is another string in another tokenizer. An id that only one of them has is no
  // difference, since vocabularies are padded. Drafts of a model are of use if there is none.
  std::optional<Token> first_difference(const Tokenizer& other) const;
  // Whether the token means something to the model and nothing to the reader.
  bool is_special(Token id) const;

  // The ids of a text. Added tokens that are not special are always found.
  //
  // Errors   std::invalid_argument: text that is not UTF-8, or of 2^30 bytes or more; FormatError:
  //          an expression or a replacement of the file that costs or grows too much
  // Cost     O(n log n), about a second for 2 MB
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options = {}) const;
  std::vector<Token> encode(std::string_view text, bool add_special) const {
    return encode(text, EncodeOptions{.add_special = add_special});
  }

  // The text of ids, in valid UTF-8; what is not becomes U+FFFD. Special tokens are left out,
  // unless skip_special is false. An id without a token has no text.
  //
  // Errors   std::invalid_argument: a negative id; FormatError: a replacement of the file that
  //          grows too much
  std::string decode(std::span<const Token> ids, bool skip_special = true) const;

 private:
  friend class TextStream;
  friend Tokenizer load_tokenizer(const files::Gguf& file);

  explicit Tokenizer(detail::TokenizerParts parts);

  std::shared_ptr<const detail::TokenizerParts> parts_;
};

// The tokenizer in a GGUF file.
//
// Errors   FormatError naming file and key
Tokenizer load_tokenizer(const files::Gguf& file);

// The tokenizer of a folder with a tokenizer.json, and tokenizer_config.json if there is one; of a
// GGUF file; or of a packed checkpoint.
//
// Errors   FormatError naming file, and field or key
Tokenizer load_tokenizer(const std::filesystem::path& path);

}  // namespace decant::inline DECANT_ABI::text

#ifndef DECANT_COMPILED_IO
#include <decant/text/detail/tokenizer.hpp>
#endif
