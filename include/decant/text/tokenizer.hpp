// decant/text/tokenizer.hpp - text to token ids and back, as a checkpoint's tokenizer.json says.
//
//   added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> template
//
// Read are byte-level BPE files (GPT-2, Llama 3, Qwen) and SentencePiece-style ones (Llama 2,
// Mistral, Gemma). A component that is not known is refused by name: a tokenizer that is almost
// right gives a model almost the text it was trained on, and nobody notices. Truncation and
// padding, which a file may ask for, are not applied.
//
// Source      the format as Hugging Face's tokenizers library (0.23) writes and reads it
// Tested by   tests/text/tokenizer_test.cpp, tests/text/malformed_tokenizer_test.cpp,
//             tests/fuzz/tokenizer_target.hpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/added_tokens.hpp>
#include <decant/text/detail/bpe.hpp>
#include <decant/text/detail/normalizer.hpp>
#include <decant/text/detail/pre_tokenizer.hpp>
#include <decant/text/detail/token_decoder.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::text {

namespace detail {

// The tokens that a TemplateProcessing puts around a text: beginning and end of sequence.
struct Template {
  std::vector<Token> before;
  std::vector<Token> after;

  static Template read(const files::JsonObject& component, Index vocabulary) {
    const std::string type = component.text("type");
    Template result;
    if (type == "Sequence") {
      for (const files::JsonObject& member : component.objects("processors")) {
        result.wrap(read(member, vocabulary));
      }
    } else if (type == "TemplateProcessing") {
      result.add(component, vocabulary);
    } else {
      expects<FormatError>(type == "ByteLevel", component.place("type"), " is \"",
                           files::printable(type), "\", a post-processor that is not known here");
    }
    return result;
  }

 private:
  void wrap(const Template& outer) {
    before.insert(before.begin(), outer.before.begin(), outer.before.end());
    after.insert(after.end(), outer.after.begin(), outer.after.end());
  }

  void add(const files::JsonObject& component, Index vocabulary) {
    int texts = 0;
    for (const files::JsonObject& part : component.objects("single")) {
      if (const auto special = part.object("SpecialToken")) {
        append(component, special->text("id"), vocabulary, texts == 0 ? before : after);
      } else {
        expects<FormatError>(part.has("Sequence"), part.place("Sequence"), " is absent");
        expects<FormatError>(part.object("Sequence")->text("id") == "A", part.place("Sequence"),
                             " is not A, in a template for a single text");
        texts += 1;
      }
    }
    expects<FormatError>(texts == 1, component.place("single"), " has ", texts,
                         " places for the text, not 1");
  }

  static void append(const files::JsonObject& component, const std::string& name, Index vocabulary,
                     std::vector<Token>& tokens) {
    const auto table = component.object("special_tokens");
    const auto entry = table ? table->object(name) : std::nullopt;
    expects<FormatError>(entry.has_value(), component.place("special_tokens"), " has no \"",
                         files::printable(name), "\", which the template names");
    const files::Json& ids = entry->at("ids");
    expects<FormatError>(ids.is_array(), entry->place("ids"), " is not an array");
    for (const files::Json& value : ids) {
      const Index id = files::JsonObject::as_integer(value, entry->place("ids"));
      expects<FormatError>(id >= 0 && id < vocabulary, entry->place("ids"), " has the id ", id,
                           ", outside [0, ", vocabulary, ")");
      tokens.push_back(static_cast<Token>(id));
    }
  }
};

}  // namespace detail

// Copies share one set of parts.
//
// Units    ids; a hole in the ids is an id without a token
// Threads  immutable: any number may encode and decode at once
class Tokenizer {
 public:
  // What a tokenizer is made of, in the order in which a text passes through it.
  struct Parts {
    detail::Normalizer normalizer;
    detail::PreTokenizer pre_tokenizer;
    detail::Bpe model;
    detail::AddedTokens added;
    detail::Template special;
    detail::TokenDecoder decoder;
  };

  explicit Tokenizer(Parts parts) : parts_(std::make_shared<Parts>(std::move(parts))) {}

  // Errors   FormatError naming file and field
  static Tokenizer open(const std::filesystem::path& tokenizer_json) {
    const files::MappedFile file(tokenizer_json);
    return parse(file.text(), files::printable_path(tokenizer_json));
  }
  // The same from the text of such a file; `name` stands for its path in sentences.
  static Tokenizer parse(std::string_view json, std::string_view name) {
    const files::Json value = files::parse_json(json, name);
    return Tokenizer(read(files::JsonObject(value, std::string(name))));
  }

  // One more than the highest id.
  Index vocabulary() const noexcept {
    return std::max(parts_->model.vocabulary().size(), parts_->added.size());
  }
  std::optional<Token> id_of(std::string_view text) const {
    const auto added = parts_->added.find(text);
    return added ? added : parts_->model.vocabulary().find(text);
  }
  // The token as the file spells it (a byte-level one in letters); nothing for a hole.
  std::optional<std::string_view> spelling(Token id) const {
    if (const detail::AddedToken* token = parts_->added.find(id)) return token->content;
    const std::string* text = parts_->model.vocabulary().find(id);
    return text == nullptr ? std::nullopt : std::optional<std::string_view>(*text);
  }
  // Whether the token means something to the model and nothing to the reader.
  bool is_special(Token id) const {
    const detail::AddedToken* token = parts_->added.find(id);
    return token != nullptr && token->special;
  }

  // The ids of a text, with the tokens that the file puts around it unless add_special is false.
  // Special tokens that stand in the text are found there.
  //
  // Errors   std::invalid_argument: text that is not UTF-8, or of 2^30 bytes or more; FormatError:
  //          an expression or a replacement of the file that costs or grows too much
  // Cost     O(n log n), about a second for 2 MB
  std::vector<Token> encode(std::string_view text, bool add_special = true) const;

  // The text of ids, in valid UTF-8; what is not becomes U+FFFD. Special tokens are left out,
  // unless skip_special is false. An id without a token has no text.
  //
  // Errors   std::invalid_argument: a negative id; FormatError: a replacement of the file that
  //          grows too much
  std::string decode(std::span<const Token> ids, bool skip_special = true) const {
    detail::TokenDecoder::Run run(parts_->decoder);
    std::string text;
    for (const Token id : ids) text += push(run, id, skip_special);
    return text += run.finish();
  }

 private:
  friend class TextStream;

  static Parts read(const files::JsonObject& file);
  static void set_unknown(const files::JsonObject& file, Parts& parts);
  std::string push(detail::TokenDecoder::Run& run, Token id, bool skip_special) const;
  void encode_fragment(std::string_view fragment, bool opens, detail::BpeScratch& scratch,
                       std::vector<Token>& tokens) const;

  std::shared_ptr<const Parts> parts_;
};

inline Tokenizer::Parts Tokenizer::read(const files::JsonObject& file) {
  const std::string version = file.text_or("version", "1.0");
  expects<FormatError>(version == "1.0", file.place("version"), " is \"", files::printable(version),
                       "\", not 1.0");
  expects<FormatError>(file.has("model"), file.place("model"), " is absent");
  Parts parts;
  if (const auto part = file.object("normalizer"))
    parts.normalizer = detail::Normalizer::read(*part);
  if (const auto part = file.object("pre_tokenizer")) {
    parts.pre_tokenizer = detail::PreTokenizer::read(*part);
  }
  parts.model = detail::Bpe::read(*file.object("model"));
  parts.added = detail::AddedTokens::read(file, parts.model.vocabulary(), parts.normalizer);
  set_unknown(file, parts);
  if (const auto part = file.object("post_processor")) {
    const Index vocabulary = std::max(parts.model.vocabulary().size(), parts.added.size());
    parts.special = detail::Template::read(*part, vocabulary);
  }
  if (const auto part = file.object("decoder")) parts.decoder = detail::TokenDecoder::read(*part);
  return parts;
}

// Some files name an added token as the unknown one, so the model cannot look it up itself.
inline void Tokenizer::set_unknown(const files::JsonObject& file, Parts& parts) {
  const std::optional<std::string>& text = parts.model.unknown_text();
  if (!text) return;
  std::optional<Token> id = parts.model.vocabulary().find(*text);
  if (!id) id = parts.added.find(*text);
  expects<FormatError>(id.has_value(), file.object("model")->place("unk_token"), " is \"",
                       files::printable(*text), "\", which is no token");
  parts.model.set_unknown(*id);
}

inline std::vector<Token> Tokenizer::encode(std::string_view text, bool add_special) const {
  constexpr std::size_t kMaxText = std::size_t{1} << 30;
  expects(text.size() < kMaxText, "text::Tokenizer::encode: a text of ", text.size(),
          " bytes, not below 2^30");
  const std::optional<Index> invalid = files::find_invalid_utf8(text);
  expects(!invalid, "text::Tokenizer::encode: the text is not UTF-8 at byte ", invalid.value_or(0));
  std::vector<Token> tokens;
  if (add_special) tokens = parts_->special.before;
  detail::BpeScratch scratch;
  for (const auto& raw : parts_->added.in_raw_text()(text)) {
    if (raw.token != nullptr) {
      tokens.push_back(raw.token->id);
    } else {
      encode_fragment(text.substr(raw.begin, raw.end - raw.begin), raw.begin == 0, scratch, tokens);
    }
  }
  if (add_special) {
    tokens.insert(tokens.end(), parts_->special.after.begin(), parts_->special.after.end());
  }
  return tokens;
}

inline void Tokenizer::encode_fragment(std::string_view fragment, bool opens,
                                       detail::BpeScratch& scratch,
                                       std::vector<Token>& tokens) const {
  const std::string text = parts_->normalizer(fragment);
  for (const auto& part : parts_->added.in_normalized_text()(text)) {
    if (part.token != nullptr) {
      tokens.push_back(part.token->id);
      continue;
    }
    const auto rest = std::string_view(text).substr(part.begin, part.end - part.begin);
    for (const detail::Piece& piece : parts_->pre_tokenizer(rest, opens && part.begin == 0)) {
      parts_->model.encode(piece.text, scratch, tokens);
    }
  }
}

inline std::string Tokenizer::push(detail::TokenDecoder::Run& run, Token id,
                                   bool skip_special) const {
  expects(id >= 0, "text::Tokenizer: the token id ", id, " is negative");
  if (const detail::AddedToken* token = parts_->added.find(id)) {
    if (token->special) return skip_special ? std::string() : run.push(token->content, true);
    return run.push(token->spelling, true);
  }
  const std::string* text = parts_->model.vocabulary().find(id);
  return text == nullptr ? std::string() : run.push(*text, false);
}

}  // namespace decant::inline v0::text
