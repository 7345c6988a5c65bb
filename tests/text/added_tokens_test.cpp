// tests/text/added_tokens_test.cpp - which added token is found where, against ids made by Hugging
// Face's tokenizers 0.23, and the normalisers that come before or after.
#include <decant/text/detail/added_tokens.hpp>
#include <decant/text/detail/normalizer.hpp>

#include "files/written_files.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using trial::added_token;
using trial::byte_level;
using trial::byte_model;
using trial::Expected;
using trial::file_of;
using trial::marked_model;
using trial::refuses;
using trial::tokenizer_of;

// Byte-level; the added tokens are 275, 276 and so on.
text::Tokenizer tokenizer_with(const std::vector<std::pair<std::string, Json>>& added) {
  Json file = file_of(byte_model(), {{"pre_tokenizer", byte_level(false, false)}});
  for (const auto& [content, flags] : added) {
    const int id = 275 + static_cast<int>(file["added_tokens"].size());
    file["added_tokens"].push_back(added_token(content, id, flags));
  }
  return tokenizer_of(file);
}

void expect_ids(const text::Tokenizer& tokenizer, const std::vector<Expected>& cases) {
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text), ids) << text;
}

const Json kNone = Json::object();

TEST(AddedTokens, MatchTheLongest) {
  expect_ids(tokenizer_with({{"<|a", kNone}, {"<|a|>", kNone}, {"<|a|>b", kNone}, {"|>", kNone}}),
             {{"<|a|>", {276}},
              {"<|a|>b", {277}},
              {"<|a", {275}},
              {"<|ab|>", {275, 98, 278}},
              {"<|a|", {275, 124}},
              {"x<|a|>bb<|a|>", {120, 277, 98, 276}}});
}

TEST(AddedTokens, TakeTheSpacesThatTheirFlagsSay) {
  expect_ids(tokenizer_with({{"<m>", {{"lstrip", true}, {"rstrip", true}}}, {"<n>", kNone}}),
             {{"a <m> b", {97, 275, 98}},
              {"a \t\u3000<m>\n<n>", {97, 275, 276}},
              {"<m>  <m>", {275, 275}},
              {" <n> ", {32, 276, 32}}});
  expect_ids(
      tokenizer_with({{"<m>", {{"lstrip", true}}}, {"<n>", {{"rstrip", true}}}}),
      {{"a <m> b", {97, 275, 32, 98}}, {"a <n> b", {97, 32, 276, 98}}, {"<n> <m>", {276, 275}}});
}

TEST(AddedTokens, StandAloneWhereTheyAreSingleWords) {
  expect_ids(tokenizer_with({{"xy", {{"single_word", true}}}, {"日", {{"single_word", true}}}}),
             {{"xy", {275}},
              {"xyxy", {120, 121, 120, 121}},
              {"xy xy", {275, 32, 275}},
              {"axy", {97, 120, 121}},
              {"xy_", {120, 121, 95}},
              {"xy.", {275, 46}},
              {"日a 日", {230, 151, 165, 97, 32, 276}},
              {"xy日 xy", {120, 121, 230, 151, 165, 32, 275}},
              {"x\u0301xy", {120, 204, 129, 120, 121}},
              {"(xy)", {40, 275, 41}},
              {"xy\u200d", {120, 121, 226, 128, 141}},
              {"xy\u0301", {120, 121, 204, 129}}});
  expect_ids(tokenizer_with({{"<m>", {{"single_word", true}, {"lstrip", true}}}}),
             {{"a <m>b", {97, 32, 60, 109, 62, 98}}, {"a <m> b", {97, 275, 32, 98}}});
}

TEST(AddedTokens, MatchBeforeOrAfterNormalisation) {
  const auto marked = [](bool normalized) {
    Json file = file_of(marked_model(), {{"normalizer", trial::marking_normalizer()}});
    file["added_tokens"].push_back(added_token("<|im_start|>", 30, {{"normalized", normalized}}));
    return tokenizer_of(file);
  };
  expect_ids(marked(true), {{"<|im_start|>user", {30, 27}},
                            {"us<|im_start|>user", {3, 25, 0, 12, 0, 13, 9, 0, 27}},
                            {"us <|im_start|> user", {3, 25, 30, 28}}});
  expect_ids(marked(false), {{"<|im_start|>user", {30, 28}},
                             {"us<|im_start|>user", {3, 25, 30, 28}},
                             {"us <|im_start|> user", {3, 25, 3, 30, 3, 28}}});
}

TEST(AddedTokens, AreFoundInLongRunsOfTheirBeginning) {
  const text::Tokenizer tokenizer = tokenizer_with({{"<|a|>", kNone}});
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "<|";
  EXPECT_EQ(tokenizer.encode(text + "a|>").size(), 199'999u);
}

TEST(AddedTokens, ThatContradictTheVocabularyOrEachOtherAreRefused) {
  const auto refused = [](const Json& tokens, std::initializer_list<std::string_view> parts) {
    const Json file = file_of(byte_model(), {{"added_tokens", tokens}});
    return refuses([&] { tokenizer_of(file); }, parts);
  };
  EXPECT_TRUE(refused(Json::array({added_token("hello", 300)}), {"added_tokens[0].id", "259"}));
  EXPECT_TRUE(refused(Json::array({added_token("<s>", 259)}), {"added_tokens[0].id", "\"hello\""}));
  EXPECT_TRUE(refused(Json::array({added_token("<s>", 275), added_token("<t>", 275)}),
                      {"added_tokens[1].id", "\"<s>\"", "\"<t>\""}));
  EXPECT_TRUE(refused(Json::array({added_token("<s>", 275), added_token("<s>", 276)}),
                      {"added_tokens[1].id"}));
  EXPECT_TRUE(refused(Json::array({added_token("<s>", -1)}), {"added_tokens[0].id is -1"}));
  EXPECT_TRUE(
      refused(Json::array({added_token("<s>", 1 << 30)}), {"added_tokens[0].id is 1073741824"}));
  EXPECT_TRUE(refused(Json::array({added_token("", 275)}), {"added_tokens[0].content is empty"}));
  EXPECT_TRUE(
      refused(Json::array({added_token("<s>", 275, {{"id", "x"}})}), {"added_tokens[0].id"}));
  EXPECT_TRUE(refused(Json::array({added_token("<s>", 275, {{"special", 1}})}),
                      {"added_tokens[0].special"}));
  EXPECT_TRUE(refused(Json::array({"<s>"}), {"added_tokens[0]", "not an object"}));
  EXPECT_TRUE(refused(Json::array({Json::object({{"<s>", 275}})}), {"added_tokens[0]"}));
  EXPECT_TRUE(refused("<s>", {"added_tokens", "not an array"}));
}

text::detail::Normalizer normalizer(const Json& component) {
  return text::detail::Normalizer::read(
      files::JsonObject(component, "tokenizer.json", "normalizer"));
}

TEST(Normalizer, HasTheFormsOfUnicode) {
  const std::string text = "e\u0301\u00e9 \u212b\ufb01 \uac00";
  EXPECT_EQ(normalizer({{"type", "NFC"}})(text), "\u00e9\u00e9 \u00c5\ufb01 \uac00");
  EXPECT_EQ(normalizer({{"type", "NFD"}})(text), "e\u0301e\u0301 A\u030a\ufb01 \u1100\u1161");
  EXPECT_EQ(normalizer({{"type", "NFKC"}})(text), "\u00e9\u00e9 \u00c5fi \uac00");
  EXPECT_EQ(normalizer({{"type", "NFKD"}})(text), "e\u0301e\u0301 A\u030afi \u1100\u1161");
}

TEST(Normalizer, LowersEachCharacterForItself) {
  EXPECT_EQ(normalizer({{"type", "Lowercase"}})("ÀB ΑΣ İ"), "àb ασ i\u0307");
}

TEST(Normalizer, StripsTheEndsThatItsFlagsSay) {
  const auto strip = [](bool left, bool right, const char* text) {
    return normalizer({{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}})(text);
  };
  EXPECT_EQ(strip(true, true, " \u3000a b\n "), "a b");
  EXPECT_EQ(strip(true, false, " \u3000a b\n "), "a b\n ");
  EXPECT_EQ(strip(false, true, " \u3000a b\n "), " \u3000a b");
  EXPECT_EQ(strip(true, true, "  "), "");
  EXPECT_EQ(strip(false, false, "  "), "  ");
  EXPECT_EQ(strip(true, false, "  "), "");
}

TEST(Normalizer, ReplacesInTheOrderOfItsSequence) {
  const auto replace = [](const char* kind, const char* pattern, const char* content) {
    return Json{{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
  };
  const auto both = normalizer(
      trial::sequence("normalizers", {replace("Regex", "a+", "b"), replace("String", "bb", "c")}));
  EXPECT_EQ(both("aaab.ba+"), "c.c+");
  EXPECT_EQ(normalizer(replace("String", "a+", "x"))("aaa+"), "aax");
  EXPECT_EQ(normalizer({{"type", "Prepend"}, {"prepend", "_"}})(""), "");
}

TEST(Normalizer, RefusesToMultiplyATextWithoutEnd) {
  Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto grow = normalizer(trial::sequence("normalizers", std::vector<Json>(60, twice)));
  EXPECT_TRUE(refuses([&] { grow("a"); }, {"normalizer.normalizers[", "pattern", "grow"}));
}

TEST(Normalizer, RefusesWhatItDoesNotKnowByName) {
  const auto refused = [](const Json& component, std::initializer_list<std::string_view> parts) {
    return refuses([&] { normalizer(component); }, parts);
  };
  EXPECT_TRUE(refused({{"type", "Precompiled"}}, {"normalizer.type", "Precompiled"}));
  EXPECT_TRUE(refused({{"type", "BertNormalizer"}}, {"normalizer.type", "BertNormalizer"}));
  EXPECT_TRUE(refused({{"type", "Prepend"}}, {"normalizer.prepend is absent"}));
  EXPECT_TRUE(refused({{"type", "Replace"}}, {"normalizer.pattern is absent"}));
  EXPECT_TRUE(refused(trial::sequence("normalizers", {kNone}), {"normalizer.normalizers[0].type"}));
}

}  // namespace
