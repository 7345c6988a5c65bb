// tests/text/tokenizer_files.hpp - small tokenizer.json files that tests write.
//
#pragma once

#include <decant/files/json.hpp>
#include <decant/text/detail/spelling.hpp>
#include <decant/text/tokenizer.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::trial {

using files::Json;
using Ids = std::vector<Token>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// A text and what must come of it.
struct Expected {
  std::string text;
  Ids ids;
};

inline constexpr std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A model whose ids are the tokens of `alphabet`, then one for each merge.
inline Json model_of(const std::vector<std::string>& alphabet, const Merges& merges) {
  Json model = {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}};
  for (const std::string& token : alphabet) model["vocab"][token] = model["vocab"].size();
  for (const auto& [left, right] : merges) {
    model["vocab"][left + right] = model["vocab"].size();
    model["merges"].push_back({left, right});
  }
  return model;
}

// Ids 0 to 255 are the bytes; the merges are given as plain text.
inline Json byte_model(const Merges& merges) {
  std::vector<std::string> letters;
  for (int byte = 0; byte < 256; ++byte) {
    letters.push_back(text::detail::to_byte_letters(std::string(1, static_cast<char>(byte))));
  }
  Merges spelled;
  for (const auto& [left, right] : merges) {
    spelled.emplace_back(text::detail::to_byte_letters(left), text::detail::to_byte_letters(right));
  }
  return model_of(letters, spelled);
}

// hello is 259, " world" 264, 2024 268, "  " 270, ab 271; the next free id is 275.
inline Json byte_model() {
  return byte_model({{"h", "e"},
                     {"l", "l"},
                     {"he", "ll"},
                     {"hell", "o"},
                     {" ", "w"},
                     {"o", "r"},
                     {" w", "or"},
                     {"l", "d"},
                     {" wor", "ld"},
                     {" ", "t"},
                     {"2", "0"},
                     {"20", "2"},
                     {"202", "4"},
                     {"\n", "\n"},
                     {" ", " "},
                     {"a", "b"},
                     {"x", " "},
                     {"1", "2"},
                     {"12", "3"}});
}

// <unk> <s> </s> are 0 to 2, the mark is 3, hello 18, its marked form 19, the next free id is 30.
inline Json marked_model() {
  Json model =
      model_of({"<unk>", "<s>", "</s>", "▁", "h", "e", "l", "o", "w", "r", "d", "u", "s", "a", "b"},
               {{"l", "o"},
                {"h", "e"},
                {"he", "l"},
                {"hel", "lo"},
                {"▁", "hello"},
                {"o", "r"},
                {"w", "or"},
                {"l", "d"},
                {"wor", "ld"},
                {"▁", "world"},
                {"u", "s"},
                {"e", "r"},
                {"us", "er"},
                {"▁", "user"},
                {"▁", "▁"}});
  model["unk_token"] = "<unk>";
  model["fuse_unk"] = true;
  return model;
}

inline Json file_of(Json model, const Json& parts = Json::object()) {
  Json file = {{"version", "1.0"}, {"added_tokens", Json::array()}, {"model", std::move(model)}};
  file.update(parts);
  return file;
}

inline Json added_token(const std::string& content, int id, const Json& flags = Json::object()) {
  Json token = {{"content", content}, {"id", id}, {"special", true}};
  token.update(flags);
  return token;
}

inline Json byte_level(bool space_in_front, bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", space_in_front}, {"use_regex", regex}};
}

inline Json split_at(std::string_view kind, std::string_view pattern,
                     std::string_view behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{std::string(kind), std::string(pattern)}}},
          {"behavior", std::string(behavior)},
          {"invert", invert}};
}

inline Json sequence(const std::string& field, const std::vector<Json>& members) {
  return {{"type", "Sequence"}, {field, members}};
}

inline Json metaspace(const std::string& scheme, bool split = true) {
  return {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

// What a file of the Llama 2 kind has: a mark in front, marks for spaces, and the way back.
inline Json marking_normalizer() {
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  return sequence("normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, replace});
}
inline Json marking_decoder() {
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return sequence("decoders", {replace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip});
}

inline text::Tokenizer tokenizer_of(const Json& file) {
  return text::Tokenizer::parse(file.dump(), "tokenizer.json");
}

}  // namespace decant::trial
