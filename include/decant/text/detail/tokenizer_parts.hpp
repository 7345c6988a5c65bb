// decant/text/detail/tokenizer_parts.hpp - what a tokenizer is made of, and how a text passes
// through it.
//
//   added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> template
//
// Source      the format as Hugging Face's tokenizers library (0.23) writes and reads it
// Tested by   tests/text/tokenizer_test.cpp, tests/text/malformed_tokenizer_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/added_tokens.hpp>
#include <decant/text/detail/bpe.hpp>
#include <decant/text/detail/normalizer.hpp>
#include <decant/text/detail/pre_tokenizer.hpp>
#include <decant/text/detail/token_decoder.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

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
                         " placeholders for the text, not 1");
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

// In the order in which a text passes through them.
//
// Errors   from read: FormatError naming the field; from encode and push: FormatError
//          if an expression or a replacement of the file costs or grows too much
// Threads  immutable once they are read
struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  Template special;
  TokenDecoder decoder;

  static TokenizerParts read(const files::JsonObject& file);

  // One more than the highest id.
  Index vocabulary() const noexcept { return std::max(model.vocabulary().size(), added.size()); }
  std::optional<Token> id_of(std::string_view text) const {
    const auto found = added.find(text);
    return found ? found : model.vocabulary().find(text);
  }

  // The tokens of valid UTF-8, without those of the template; `find_special` says whether special
  // tokens are found in the text.
  void encode(std::string_view text, bool find_special, std::vector<Token>& tokens) const;

  // The text that has become certain with this token.
  //
  // Errors   std::invalid_argument: a negative id
  std::string push(DecoderRun& run, Token id, bool skip_special) const;

 private:
  void read_unknown(const files::JsonObject& file);
  void encode_fragment(std::string_view fragment, bool opens, const AddedTokenSearch& added_search,
                       BpeScratch& scratch, std::vector<Token>& tokens) const;
};

inline TokenizerParts TokenizerParts::read(const files::JsonObject& file) {
  const std::string version = file.text_or("version", "1.0");
  expects<FormatError>(version == "1.0", file.place("version"), " is \"", files::printable(version),
                       "\", not 1.0");
  expects<FormatError>(file.has("model"), file.place("model"), " is absent");
  TokenizerParts parts;
  if (const auto part = file.object("normalizer")) parts.normalizer = Normalizer::read(*part);
  if (const auto part = file.object("pre_tokenizer")) {
    parts.pre_tokenizer = PreTokenizer::read(*part);
  }
  parts.model = Bpe::read(*file.object("model"));
  parts.added = AddedTokens::read(file, parts.model.vocabulary(), parts.normalizer);
  parts.read_unknown(file);
  if (const auto part = file.object("post_processor")) {
    parts.special = Template::read(*part, parts.vocabulary());
  }
  if (const auto part = file.object("decoder")) parts.decoder = TokenDecoder::read(*part);
  return parts;
}

// Some files name an added token as the unknown one, so the model cannot look it up itself.
inline void TokenizerParts::read_unknown(const files::JsonObject& file) {
  const std::optional<std::string>& text = model.unknown_text();
  if (!text) return;
  std::optional<Token> id = model.vocabulary().find(*text);
  if (!id) id = added.find(*text);
  expects<FormatError>(id.has_value(), file.object("model")->place("unk_token"), " is \"",
                       files::printable(*text), "\", which is no token");
  model.set_unknown(*id);
}

inline void TokenizerParts::encode(std::string_view text, bool find_special,
                                   std::vector<Token>& tokens) const {
  const auto& [in_raw, in_normalized] = added.in_text(find_special);
  BpeScratch scratch;
  for (const auto& raw : in_raw(text)) {
    if (raw.token != nullptr) {
      tokens.push_back(raw.token->id);
    } else {
      encode_fragment(text.substr(raw.begin, raw.end - raw.begin), raw.begin == 0, in_normalized,
                      scratch, tokens);
    }
  }
}

inline void TokenizerParts::encode_fragment(std::string_view fragment, bool opens,
                                            const AddedTokenSearch& added_search,
                                            BpeScratch& scratch, std::vector<Token>& tokens) const {
  const std::string text = normalizer(fragment);
  for (const auto& part : added_search(text)) {
    if (part.token != nullptr) {
      tokens.push_back(part.token->id);
      continue;
    }
    const auto rest = std::string_view(text).substr(part.begin, part.end - part.begin);
    for (const Piece& piece : pre_tokenizer(rest, opens && part.begin == 0)) {
      model.encode(piece.text, scratch, tokens);
    }
  }
}

inline std::string TokenizerParts::push(DecoderRun& run, Token id, bool skip_special) const {
  expects(id >= 0, "text::Tokenizer: the token id ", id, " is negative");
  if (const AddedToken* token = added.find(id)) {
    if (token->special) return skip_special ? std::string() : run.push(token->content, true);
    return run.push(token->spelling, true);
  }
  const std::string* text = model.vocabulary().find(id);
  return text == nullptr ? std::string() : run.push(*text, false);
}

}  // namespace decant::inline DECANT_ABI::text::detail
