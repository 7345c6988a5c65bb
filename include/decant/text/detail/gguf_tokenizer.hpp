// decant/text/detail/gguf_tokenizer.hpp - the tokenizer inside a GGUF file.
//
// A file holds the tables of a tokenizer and the name of everything else. Two kinds are read:
// "gpt2", bytes as letters and listed merges, cut as tokenizer.ggml.pre names it; and "llama",
// SentencePiece with scores. A name becomes the components that the model's tokenizer.json has. A
// name that is not known is refused: text would be cut in almost the way that the model was trained
// on, and nobody would notice.
//
//   tokenizer.ggml.pre           cuts
//   default                      punctuation, then GPT-2's, then digits, by threes
//   gpt-2                        GPT-2's
//   llama-bpe, llama3, llama-v3  Llama 3's; a piece that is a token stays whole; begins with bos
//   qwen2                        Qwen 2's, after NFC
//   smollm                       each digit, then GPT-2's
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md), "Tokenizer"; llama.cpp
//             for what the names mean
// Tested by   tests/text/gguf_tokenizer_test.cpp, tests/fuzz/gguf_target.hpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/text/detail/added_tokens.hpp>
#include <decant/text/detail/bpe.hpp>
#include <decant/text/detail/gguf_vocabulary.hpp>
#include <decant/text/detail/merges.hpp>
#include <decant/text/detail/normalizer.hpp>
#include <decant/text/detail/pre_tokenizer.hpp>
#include <decant/text/detail/token_decoder.hpp>
#include <decant/text/detail/tokenizer_parts.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::text::detail {

inline constexpr std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

// What a name in tokenizer.ggml.pre stands for.
struct GgufCuts {
  std::string_view name;
  std::array<std::string_view, 4> expressions;  // in this order; the rest is empty
  bool compose = false;                         // NFC first
  bool whole_pieces = false;                    // a piece that is a token is not built by merges
  bool begins = false;                          // a text begins with bos unless the file denies it
};

inline constexpr std::array kGgufCuts = {
    GgufCuts{
        .name = "default",
        .expressions = {R"([\p{P}$+<=>\^~|]+)", kGpt2Expression, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    GgufCuts{.name = "gpt-2", .expressions = {kGpt2Expression}},
    GgufCuts{.name = "llama-bpe",
             .expressions = {kLlama3Expression},
             .whole_pieces = true,
             .begins = true},
    GgufCuts{
        .name = "llama3", .expressions = {kLlama3Expression}, .whole_pieces = true, .begins = true},
    GgufCuts{.name = "llama-v3",
             .expressions = {kLlama3Expression},
             .whole_pieces = true,
             .begins = true},
    GgufCuts{.name = "qwen2", .expressions = {kQwen2Expression}, .compose = true},
    GgufCuts{.name = "smollm", .expressions = {R"(\p{N})", kGpt2Expression}},
};

inline const GgufCuts& gguf_cuts(const files::GgufMetadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  const std::string_view name = metadata.text(kKey);
  const auto found = std::ranges::find(kGgufCuts, name, &GgufCuts::name);
  expects<FormatError>(found != kGgufCuts.end(), metadata.place(kKey), " is \"",
                       files::printable(name), "\", which is not known here");
  return *found;
}

// The pre-tokenizer that cuts so and then spells bytes.
inline files::Json byte_level_component(const GgufCuts& cuts) {
  files::Json steps = files::Json::array();
  for (std::string_view expression : cuts.expressions) {
    if (expression.empty()) continue;
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}});
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Spaces become marks, with one more in front if there is `prefix`; and the way back.
inline files::Json marking_component(bool prefix) {
  files::Json steps = files::Json::array();
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}
inline files::Json unmarking_component(bool prefix) {
  files::Json steps = files::Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (prefix) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// The special token that `key` names; nothing where it names none of the vocabulary.
inline std::optional<Token> gguf_special(const files::GgufMetadata& metadata, std::string_view key,
                                         const Vocabulary& vocabulary) {
  if (!metadata.has(key)) return std::nullopt;
  const Index id = metadata.integer(key);
  return id >= 0 && id < vocabulary.size() ? std::optional(static_cast<Token>(id)) : std::nullopt;
}

// `add` says whether the token of `key` stands around a text, if the file does not say so itself.
inline std::vector<Token> gguf_around(const files::GgufMetadata& metadata, std::string_view flag,
                                      std::string_view key, bool add,
                                      const Vocabulary& vocabulary) {
  if (!metadata.flag_or(flag, add)) return {};
  const std::optional<Token> id = gguf_special(metadata, key, vocabulary);
  expects<FormatError>(id.has_value() || !metadata.has(flag), metadata.place(key),
                       " names no token, but ", flag, " asks for it");
  return id ? std::vector<Token>{*id} : std::vector<Token>{};
}

inline Template gguf_template(const files::GgufMetadata& metadata, bool begins,
                              const Vocabulary& vocabulary) {
  return {.before = gguf_around(metadata, "tokenizer.ggml.add_bos_token",
                                "tokenizer.ggml.bos_token_id", begins, vocabulary),
          .after = gguf_around(metadata, "tokenizer.ggml.add_eos_token",
                               "tokenizer.ggml.eos_token_id", false, vocabulary)};
}

inline std::vector<BpeMerge> listed_merges(const files::GgufMetadata& metadata,
                                           const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  std::vector<BpeMerge> merges;
  std::int32_t rank = 0;
  for (std::string_view text : metadata.texts(kKey)) {
    const std::string place = sentence(metadata.place(kKey), "[", rank, "]");
    const auto [left, right] = merge_parts(text, place);
    merges.push_back({part_of_merge(vocabulary, left, place),
                      part_of_merge(vocabulary, right, place),
                      part_of_merge(vocabulary, sentence(left, right), place), rank});
    rank += 1;
  }
  return merges;
}

inline std::vector<BpeMerge> scored_merges(const files::GgufMetadata& metadata,
                                           const GgufVocabulary& tokens) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  const Index size = metadata.at(GgufVocabulary::kTokens).count;
  std::vector<double> scores;
  if (metadata.has(kKey)) scores = metadata.reals(kKey);
  expects<FormatError>(scores.empty() || std::ssize(scores) == size, metadata.place(kKey), " has ",
                       scores.size(), " scores for ", size, " tokens");
  expects<FormatError>(std::ranges::none_of(scores, [](double x) { return std::isnan(x); }),
                       metadata.place(kKey), " has a number that is none");
  const auto mergeable = [&](Token id) {
    const GgufToken kind = tokens.kind(id);
    return kind == GgufToken::normal || kind == GgufToken::undefined ||
           kind == GgufToken::user_defined;
  };
  return merges_by_score(tokens.vocabulary(), scores, mergeable,
                         metadata.place(GgufVocabulary::kTokens));
}

inline TokenizerParts byte_level_parts(const files::GgufMetadata& metadata) {
  const GgufCuts& cuts = gguf_cuts(metadata);
  expects<FormatError>(!metadata.flag_or("tokenizer.ggml.add_space_prefix", false),
                       metadata.place("tokenizer.ggml.add_space_prefix"),
                       " is true, which is not supported for gpt2");
  const files::Json cut = byte_level_component(cuts);
  const files::Json compose = {{"type", "NFC"}};
  const files::Json decoder = {{"type", "ByteLevel"}};
  const std::string& file = metadata.file();
  GgufVocabulary tokens(metadata);
  const std::vector<BpeMerge> merges = listed_merges(metadata, tokens.vocabulary());
  TokenizerParts parts;
  if (cuts.compose) parts.normalizer = Normalizer::read(files::JsonObject(compose, file));
  parts.pre_tokenizer = PreTokenizer::read(files::JsonObject(cut, file));
  parts.decoder = TokenDecoder::read(files::JsonObject(decoder, file));
  parts.special = gguf_template(metadata, cuts.begins, tokens.vocabulary());
  parts.added =
      AddedTokens::of(tokens.added(), tokens.vocabulary(), metadata.place(GgufVocabulary::kTokens));
  parts.model = Bpe(std::move(tokens).vocabulary(), merges, {.ignore_merges = cuts.whole_pieces});
  return parts;
}

inline TokenizerParts sentencepiece_parts(const files::GgufMetadata& metadata) {
  const bool prefix = metadata.flag_or("tokenizer.ggml.add_space_prefix", true);
  const files::Json marking = marking_component(prefix);
  const files::Json unmarking = unmarking_component(prefix);
  const std::string& file = metadata.file();
  GgufVocabulary tokens(metadata);
  const std::vector<BpeMerge> merges = scored_merges(metadata, tokens);
  const std::optional<Token> unknown =
      gguf_special(metadata, "tokenizer.ggml.unknown_token_id", tokens.vocabulary());
  TokenizerParts parts;
  parts.normalizer = Normalizer::read(files::JsonObject(marking, file));
  parts.decoder = TokenDecoder::read(files::JsonObject(unmarking, file));
  parts.special = gguf_template(metadata, true, tokens.vocabulary());
  parts.added =
      AddedTokens::of(tokens.added(), tokens.vocabulary(), metadata.place(GgufVocabulary::kTokens));
  parts.model =
      Bpe(std::move(tokens).vocabulary(), merges, {.fuse_unknown = true, .byte_fallback = true});
  if (unknown) parts.model.set_unknown(*unknown);
  return parts;
}

// Errors   FormatError naming file and key
inline TokenizerParts read_gguf_tokenizer(const files::Gguf& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.model";
  const std::string_view kind = file.metadata().text(kKey);
  if (kind == "gpt2") return byte_level_parts(file.metadata());
  expects<FormatError>(kind == "llama", file.metadata().place(kKey), " is \"",
                       files::printable(kind), "\", which is not supported (gpt2 and llama are)");
  return sentencepiece_parts(file.metadata());
}

}  // namespace decant::inline DECANT_ABI::text::detail
