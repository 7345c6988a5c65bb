// tests/text/pre_tokenizer_test.cpp - where text is cut: the patterns of real models and every kind
// of component, against pieces made by Hugging Face's tokenizers 0.23.
#include <decant/text/detail/pre_tokenizer.hpp>

#include "files/written_files.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using files::JsonObject;
using text::detail::PreTokenizer;
using trial::byte_level;
using trial::metaspace;
using trial::refuses;
using trial::sequence;
using trial::split_at;

using Texts = std::vector<std::string>;

PreTokenizer pre_tokenizer_of(const Json& component) {
  return PreTokenizer::read(JsonObject(component, "tokenizer.json", "pre_tokenizer"));
}

Texts pieces(const Json& component, std::string_view text, bool opens = true) {
  Texts texts;
  for (const text::detail::Piece& piece : pre_tokenizer_of(component)(text, opens))
    texts.push_back(piece.text);
  return texts;
}

struct Case {
  std::string text;
  Texts pieces;
};

void expect_all(const Json& component, const std::vector<Case>& cases) {
  const PreTokenizer cut = pre_tokenizer_of(component);
  for (const Case& each : cases) {
    Texts texts;
    for (const text::detail::Piece& piece : cut(each.text, true)) texts.push_back(piece.text);
    EXPECT_EQ(texts, each.pieces) << each.text;
  }
}

// clang-format off
TEST(PreTokenizer, CutsAsGpt2Does) {
  expect_all(split_at("Regex", text::detail::kGpt2Expression), {
    {"I'll don't WE'VE it'S", {"I", "'ll", " don", "'t", " WE", "'", "VE", " it", "'", "S"}},
    {"year 2024, 1234567 ½Ⅷ", {"year", " 2024", ",", " 1234567", " ½Ⅷ"}},
    {"a  b   c    ", {"a", " ", " b", "  ", " c", "    "}},
    {"\tx\n\n  y\r\n z", {"\t", "x", "\n\n ", " y", "\r\n", " z"}},
    {"foo_bar(x) -> {y: [1]};\n\n}", {"foo", "_", "bar", "(", "x", ")", " ->", " {", "y", ":", " [", "1", "]};", "\n", "\n", "}"}},
    {"naïve cafe\u0301 日本語のテ", {"naïve", " cafe", "\u0301", " 日本語のテ"}},
    {"\U0001f44d\U0001f600 \U0001f468\u200d\U0001f4bb!", {"\U0001f44d\U0001f600", " \U0001f468\u200d\U0001f4bb!"}},
    {"\u00a0x\u3000y" "\xc2""\x85" "z\u2028w\u200bv", {"\u00a0", "x", "\u3000", "y", "\xc2""\x85", "z", "\u2028", "w", "\u200b", "v"}},
    {"'ſ ſ's ह\u093fन्दी ไทย", {"'", "ſ", " ſ", "'s", " ह", "\u093f", "न", "्", "द", "ी", " ไทย"}},
    {".\n\n..\n  \n", {".", "\n", "\n", "..", "\n  \n"}},
  });
}

TEST(PreTokenizer, CutsAsLlama3Does) {
  expect_all(split_at("Regex", trial::kLlama3Expression), {
    {"I'll don't WE'VE it'S", {"I", "'ll", " don", "'t", " WE", "'VE", " it", "'S"}},
    {"year 2024, 1234567 ½Ⅷ", {"year", " ", "202", "4", ",", " ", "123", "456", "7", " ", "½Ⅷ"}},
    {"a  b   c    ", {"a", " ", " b", "  ", " c", "    "}},
    {"\tx\n\n  y\r\n z", {"\tx", "\n\n", " ", " y", "\r\n", " z"}},
    {"foo_bar(x) -> {y: [1]};\n\n}", {"foo", "_bar", "(x", ")", " ->", " {", "y", ":", " [", "1", "]};\n\n", "}"}},
    {"naïve cafe\u0301 日本語のテ", {"naïve", " cafe", "\u0301", " 日本語のテ"}},
    {"\U0001f44d\U0001f600 \U0001f468\u200d\U0001f4bb!", {"\U0001f44d\U0001f600", " \U0001f468\u200d\U0001f4bb!"}},
    {"\u00a0x\u3000y" "\xc2""\x85" "z\u2028w\u200bv", {"\u00a0x", "\u3000y", "\xc2""\x85" "z", "\u2028w", "\u200bv"}},
    {"'ſ ſ's ह\u093fन्दी ไทย", {"'ſ", " ſ", "'s", " ह", "\u093fन", "्द", "ी", " ไทย"}},
    {".\n\n..\n  \n", {".\n\n", "..\n", "  \n"}},
  });
}

TEST(PreTokenizer, CutsAsQwen2Does) {
  expect_all(split_at("Regex", trial::kQwen2Expression), {
    {"I'll don't WE'VE it'S", {"I", "'ll", " don", "'t", " WE", "'VE", " it", "'S"}},
    {"year 2024, 1234567 ½Ⅷ", {"year", " ", "2", "0", "2", "4", ",", " ", "1", "2", "3", "4", "5", "6", "7", " ", "½", "Ⅷ"}},
    {"a  b   c    ", {"a", " ", " b", "  ", " c", "    "}},
    {"\tx\n\n  y\r\n z", {"\tx", "\n\n", " ", " y", "\r\n", " z"}},
    {"foo_bar(x) -> {y: [1]};\n\n}", {"foo", "_bar", "(x", ")", " ->", " {", "y", ":", " [", "1", "]};\n\n", "}"}},
    {"naïve cafe\u0301 日本語のテ", {"naïve", " cafe", "\u0301", " 日本語のテ"}},
    {"\U0001f44d\U0001f600 \U0001f468\u200d\U0001f4bb!", {"\U0001f44d\U0001f600", " \U0001f468\u200d\U0001f4bb!"}},
    {"\u00a0x\u3000y" "\xc2""\x85" "z\u2028w\u200bv", {"\u00a0x", "\u3000y", "\xc2""\x85" "z", "\u2028w", "\u200bv"}},
    {"'ſ ſ's ह\u093fन्दी ไทย", {"'ſ", " ſ", "'s", " ह", "\u093fन", "्द", "ी", " ไทย"}},
    {".\n\n..\n  \n", {".\n\n", "..\n", "  \n"}},
  });
}
// clang-format on

TEST(PreTokenizer, TakesAStringLiterallyAndARegexAsAnExpression) {
  EXPECT_EQ(pieces(split_at("String", R"(\d+)"), R"(a12\d+b)"), (Texts{"a12", R"(\d+)", "b"}));
  EXPECT_EQ(pieces(split_at("Regex", R"(\d+)"), R"(a12\d+b)"), (Texts{"a", "12", R"(\d+b)"}));
}

TEST(PreTokenizer, HasAllBehaviorsBothWaysAround) {
  struct {
    const char* behavior;
    bool invert;
    Texts pieces;
  } const cases[] = {
      {"Removed", false, {"The", "final", "count"}},
      {"Removed", true, {"-", "-", "-", "-", "-"}},
      {"Isolated", false, {"-", "The", "-", "final", "-", "-", "count", "-"}},
      {"Isolated", true, {"-", "The", "-", "final", "-", "-", "count", "-"}},
      {"MergedWithPrevious", false, {"-", "The-", "final-", "-", "count-"}},
      {"MergedWithPrevious", true, {"-The", "-final", "-", "-count", "-"}},
      {"MergedWithNext", false, {"-The", "-final", "-", "-count", "-"}},
      {"MergedWithNext", true, {"-", "The-", "final-", "-", "count-"}},
      {"Contiguous", false, {"-", "The", "-", "final", "--", "count", "-"}},
      {"Contiguous", true, {"-", "The", "-", "final", "--", "count", "-"}},
  };
  for (const auto& each : cases) {
    for (const char* kind : {"String", "Regex"}) {
      EXPECT_EQ(pieces(split_at(kind, "-", each.behavior, each.invert), "-The-final--count-"),
                each.pieces)
          << each.behavior << each.invert;
    }
  }
}

TEST(PreTokenizer, CutsAtEmptyMatches) {
  for (const char* behavior :
       {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
    EXPECT_EQ(pieces(split_at("Regex", "(?=[A-Z])", behavior), "aBcDDe"),
              (Texts{"a", "Bc", "D", "De"}));
  }
}

TEST(PreTokenizer, ReadsLinesAsTheFormatDoes) {
  EXPECT_EQ(pieces(split_at("Regex", R"(^\w+|.$)"), "ab c\nde.\r\nf"),
            (Texts{"ab", " ", "c", "\n", "de", ".", "\r", "\n", "f"}));
  EXPECT_EQ(pieces(split_at("Regex", ".+"), "ab\rc\nd\u2028e"), (Texts{"ab\rc", "\n", "d\u2028e"}));
}

TEST(PreTokenizer, KnowsClassesOfCharacters) {
  const Json each = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(pieces(each, "a12 3b٤٥"), (Texts{"a", "1", "2", " ", "3", "b", "٤", "٥"}));
  EXPECT_EQ(pieces({{"type", "Digits"}}, "a12 3b٤٥"), (Texts{"a", "12", " ", "3", "b", "٤٥"}));
  EXPECT_EQ(pieces({{"type", "Punctuation"}}, "Hey!! $5 (x)^2…"),
            (Texts{"Hey", "!", "!", " ", "$", "5 ", "(", "x", ")", "^", "2", "…"}));
  EXPECT_EQ(pieces({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "Hey!! $5 (x)^2…"),
            (Texts{"Hey", "!!", " ", "$", "5 ", "(", "x", ")^", "2", "…"}));
  EXPECT_EQ(pieces({{"type", "WhitespaceSplit"}}, " a \u3000b\n"), (Texts{"a", "b"}));
}

TEST(PreTokenizer, SpellsBytesAsLetters) {
  EXPECT_EQ(pieces(byte_level(true, true), "a bé\n"), (Texts{"Ġa", "ĠbÃ©", "Ċ"}));
  EXPECT_EQ(pieces(byte_level(true, false), "a bé\n"), (Texts{"ĠaĠbÃ©Ċ"}));
  EXPECT_EQ(pieces(byte_level(false, true), "a bé\n"), (Texts{"a", "ĠbÃ©", "Ċ"}));
  EXPECT_EQ(pieces(byte_level(true, true), " a"), (Texts{"Ġa"}));
  EXPECT_EQ(pieces(byte_level(false, false), "\u00ad"), (Texts{"ÂŃ"}));
  EXPECT_EQ(pieces({{"type", "ByteLevel"}}, "a b"), (Texts{"Ġa", "Ġb"}));  // the defaults
}

TEST(PreTokenizer, MarksSpacesAsThePrependSchemeSays) {
  for (const char* scheme : {"first", "always"}) {
    EXPECT_EQ(pieces(metaspace(scheme), "Hey  you"), (Texts{"▁Hey", "▁", "▁you"}));
    EXPECT_EQ(pieces(metaspace(scheme, false), "Hey  you"), (Texts{"▁Hey▁▁you"}));
    EXPECT_EQ(pieces(metaspace(scheme), "  Hey"), (Texts{"▁", "▁Hey"}));
    EXPECT_EQ(pieces(metaspace(scheme), "▁x"), (Texts{"▁x"}));
  }
  EXPECT_EQ(pieces(metaspace("never"), "Hey  you"), (Texts{"Hey", "▁", "▁you"}));
  EXPECT_EQ(pieces(metaspace("first"), "Hey", false), (Texts{"Hey"}));
  EXPECT_EQ(pieces(metaspace("always"), "Hey", false), (Texts{"▁Hey"}));
}

TEST(PreTokenizer, ReadsMetaspaceOfBeforePrependSchemes) {
  Json old = {{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", true}};
  EXPECT_EQ(pieces(old, "a b"), (Texts{"_a", "_b"}));
  old["add_prefix_space"] = false;
  EXPECT_EQ(pieces(old, "a b"), (Texts{"a", "_b"}));
  old["prepend_scheme"] = "first";
  EXPECT_TRUE(
      refuses([&] { pre_tokenizer_of(old); }, {"pre_tokenizer.prepend_scheme", "contradicts"}));
}

TEST(PreTokenizer, AppliesASequenceToEveryPiece) {
  const Json commas = split_at("String", ",");
  EXPECT_EQ(pieces(sequence("pretokenizers", {commas, metaspace("first")}), "a b,c d"),
            (Texts{"▁a", "▁b", ",", "c", "▁d"}));
  EXPECT_EQ(pieces(sequence("pretokenizers", {commas, byte_level(true, true)}), "a b,c d"),
            (Texts{"Ġa", "Ġb", "Ġ,", "Ġc", "Ġd"}));
}

TEST(PreTokenizer, GivesNoPieceForNoText) {
  for (const Json& component :
       {byte_level(true, true), metaspace("always"), split_at("Regex", "x*")}) {
    EXPECT_EQ(pieces(component, ""), Texts{});
  }
}

TEST(PreTokenizer, RefusesWhatItDoesNotKnowByName) {
  const auto refused = [](const Json& component, std::initializer_list<std::string_view> parts) {
    return refuses([&] { pre_tokenizer_of(component); }, parts);
  };
  EXPECT_TRUE(refused({{"type", "UnicodeScripts"}}, {"pre_tokenizer.type", "UnicodeScripts"}));
  EXPECT_TRUE(refused(Json::object(), {"pre_tokenizer.type is absent"}));
  EXPECT_TRUE(refused(sequence("pretokenizers", {byte_level(true, true), {{"type", "Odd"}}}),
                      {"pre_tokenizer.pretokenizers[1].type", "Odd"}));
  EXPECT_TRUE(refused(split_at("Regex", "a", "Sideways"), {"pre_tokenizer.behavior", "Sideways"}));
  EXPECT_TRUE(refused(split_at("Regex", "(a"), {"pre_tokenizer.pattern.Regex", "expression"}));
  EXPECT_TRUE(refused(split_at("Regex", "[a"), {"pre_tokenizer.pattern.Regex", "expression"}));
  EXPECT_TRUE(refused(split_at("String", ""), {"pre_tokenizer.pattern.String", "empty"}));
  EXPECT_TRUE(refused(split_at("Glob", "a*"), {"pre_tokenizer.pattern.Regex is absent"}));
  EXPECT_TRUE(refused({{"type", "Split"}, {"behavior", "Isolated"}}, {"pre_tokenizer.pattern"}));
  EXPECT_TRUE(refused({{"type", "Metaspace"}, {"replacement", "ab"}}, {"replacement"}));
  EXPECT_TRUE(refused({{"type", "Metaspace"}, {"replacement", ""}}, {"replacement"}));
  EXPECT_TRUE(refused(metaspace("last"), {"prepend_scheme", "last"}));
}

TEST(PreTokenizer, GivesUpOnAnExpressionThatBacktracksForEver) {
  const std::string text = std::string(40, 'a') + "!";
  for (const char* expression : {"(a+)+$", "(a|aa)+$", "(.*a){20}x"}) {
    const PreTokenizer cut = pre_tokenizer_of(split_at("Regex", expression));
    EXPECT_TRUE(refuses([&] { cut(text, true); }, {"pre_tokenizer.pattern.Regex", "budget"}))
        << expression;
  }
}

TEST(PreTokenizer, TakesAMillionCharactersOfOneKind) {
  const std::string spaces(1'000'000, ' ');
  const std::string letters(1'000'000, 'a');
  for (const auto expression :
       {text::detail::kGpt2Expression, trial::kLlama3Expression, trial::kQwen2Expression}) {
    const PreTokenizer cut = pre_tokenizer_of(split_at("Regex", expression));
    EXPECT_EQ(cut(spaces, true).size(), 1u);
    EXPECT_EQ(cut(letters, true).size(), 1u);
    EXPECT_EQ(cut(spaces + "a", true).size(), 2u);
  }
}

}  // namespace
