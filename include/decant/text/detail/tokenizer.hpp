// decant/text/detail/tokenizer.hpp - definitions of text/tokenizer.hpp.
//
// Tested by   tests/text/{tokenizer,gguf_tokenizer}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/json.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/sealed_tensors.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/gguf_tokenizer.hpp>
#include <decant/text/detail/tokenizer_parts.hpp>
#include <decant/text/tokenizer.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text {

DECANT_IO_INLINE Tokenizer::Tokenizer(detail::TokenizerParts parts)
    : parts_(std::make_shared<detail::TokenizerParts>(std::move(parts))) {}

DECANT_IO_INLINE Tokenizer Tokenizer::open(const std::filesystem::path& tokenizer_json) {
  const files::MappedFile file(tokenizer_json);
  return parse(file.text(), files::printable_path(tokenizer_json));
}

namespace detail {

// Adds to the JSON of a tokenizer.json the tokens that only tokenizer_config.json adds.
//
// Errors   FormatError naming a field of the wrong type
inline void add_tokens_of(std::string_view config, const std::string& name,
                          files::Json& tokenizer) {
  const files::Json json = files::parse_json(files::quote_non_finite(config), name);
  const files::JsonObject object(json, name);
  const auto decoder = object.object("added_tokens_decoder");
  if (!decoder || !tokenizer.is_object()) return;
  files::Json& added = tokenizer["added_tokens"];
  if (added.is_null()) added = files::Json::array();
  if (!added.is_array()) return;  // which the reader of the file refuses
  for (const auto& [key, entry] : decoder->json().items()) {
    Index id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    expects<FormatError>(error == std::errc{} && end == key.data() + key.size(),
                         decoder->place(key), " is not the id of a token");
    const auto has_id = [&](const files::Json& token) {
      return token.is_object() && token.value("id", files::Json()) == id;
    };
    if (std::ranges::any_of(added, has_id)) continue;
    expects<FormatError>(entry.is_object(), decoder->place(key), " is not an object");
    files::Json token = entry;
    token["id"] = id;
    added.push_back(std::move(token));
  }
}

}  // namespace detail

DECANT_IO_INLINE Tokenizer Tokenizer::parse(std::string_view json, std::string_view name,
                                            std::string_view config) {
  files::Json value = files::parse_json(json, name);
  if (!config.empty()) detail::add_tokens_of(config, "tokenizer_config.json", value);
  return Tokenizer(detail::TokenizerParts::read(files::JsonObject(value, std::string(name))));
}

DECANT_IO_INLINE Index Tokenizer::vocabulary() const noexcept { return parts_->vocabulary(); }

DECANT_IO_INLINE std::optional<Token> Tokenizer::id_of(std::string_view text) const {
  return parts_->id_of(text);
}

DECANT_IO_INLINE std::optional<std::string_view> Tokenizer::spelling(Token id) const {
  if (const detail::AddedToken* token = parts_->added.find(id)) return token->content;
  const std::string* text = parts_->model.vocabulary().find(id);
  return text == nullptr ? std::nullopt : std::optional<std::string_view>(*text);
}

DECANT_IO_INLINE std::optional<std::string> Tokenizer::bytes_of(Token id) const {
  const auto text = spelling(id);
  if (!text) return std::nullopt;
  const detail::AddedToken* added = parts_->added.find(id);
  if (added != nullptr && added->special) return std::string(*text);
  return parts_->decoder.bytes_of(added ? added->spelling : *text, added != nullptr);
}

DECANT_IO_INLINE std::vector<Token> Tokenizer::unused_ids(Index vocabulary) const {
  std::vector<Token> ids;
  for (Token id = 0; id < vocabulary; ++id) {
    if (!spelling(id)) ids.push_back(id);
  }
  return ids;
}

DECANT_IO_INLINE std::optional<Token> Tokenizer::first_difference(const Tokenizer& other) const {
  const Index shared = std::min(vocabulary(), other.vocabulary());
  for (Token id = 0; id < shared; ++id) {
    const auto own = spelling(id), foreign = other.spelling(id);
    if (own && foreign && *own != *foreign) return id;
  }
  return std::nullopt;
}

DECANT_IO_INLINE bool Tokenizer::is_special(Token id) const {
  const detail::AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

DECANT_IO_INLINE std::vector<Token> Tokenizer::encode(std::string_view text,
                                                      const EncodeOptions& options) const {
  constexpr std::size_t kMaxText = std::size_t{1} << 30;
  expects(text.size() < kMaxText, "text::Tokenizer::encode: a text of ", text.size(),
          " bytes, not below 2^30");
  const std::optional<Index> invalid = files::find_invalid_utf8(text);
  expects(!invalid, "text::Tokenizer::encode: the text is not UTF-8 at byte ", invalid.value_or(0));
  std::vector<Token> tokens;
  if (options.add_special) tokens = parts_->special.before;
  parts_->encode(text, options.find_special, tokens);
  if (options.add_special) {
    tokens.insert(tokens.end(), parts_->special.after.begin(), parts_->special.after.end());
  }
  return tokens;
}

DECANT_IO_INLINE std::string Tokenizer::decode(std::span<const Token> ids,
                                               bool skip_special) const {
  detail::DecoderRun run(parts_->decoder);
  std::string text;
  for (const Token id : ids) text += parts_->push(run, id, skip_special);
  return text += run.finish();
}

DECANT_IO_INLINE Tokenizer load_tokenizer(const files::Gguf& file) {
  return Tokenizer(detail::read_gguf_tokenizer(file));
}

namespace detail {

// Of a file that checkpoints::pack_checkpoint() wrote.
inline Tokenizer load_packed_tokenizer(const std::filesystem::path& path) {
  const files::Safetensors file = files::Safetensors::open(path);
  const auto& tensors = file.tensors();
  if (const auto json = tensors.find("tokenizer.json"); json != tensors.end()) {
    const auto config = tensors.find("tokenizer_config.json");
    return Tokenizer::parse(
        files::characters(json->second.data), file.name() + ": tokenizer.json",
        config == tensors.end() ? std::string_view() : files::characters(config->second.data));
  }
  const auto gguf = tensors.find("tokenizer.gguf");
  expects<FormatError>(gguf != tensors.end(), file.name(), ": has no tokenizer");
  return load_tokenizer(files::Gguf::parse(gguf->second.data, file.name() + ": tokenizer.gguf"));
}

}  // namespace detail

DECANT_IO_INLINE Tokenizer load_tokenizer(const std::filesystem::path& path) {
  if (files::is_safetensors(path)) return detail::load_packed_tokenizer(path);
  if (files::is_gguf(path)) return load_tokenizer(files::Gguf::open(path));
  const files::MappedFile file(path / "tokenizer.json");
  const std::string name = files::printable_path(file.path());
  std::error_code ignored;
  if (!std::filesystem::exists(path / "tokenizer_config.json", ignored)) {
    return Tokenizer::parse(file.text(), name);
  }
  const files::MappedFile config(path / "tokenizer_config.json");
  return Tokenizer::parse(file.text(), name, config.text());
}

}  // namespace decant::inline DECANT_ABI::text
