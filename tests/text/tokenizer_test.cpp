// tests/text/tokenizer_test.cpp - whole files: real ones, and small ones with one peculiarity each,
// against ids made by Hugging Face's tokenizers 0.23.
#include <decant/text/tokenizer.hpp>

#include "files/written_files.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using text::Tokenizer;
using trial::added_token;
using trial::byte_level;
using trial::byte_model;
using trial::Expected;
using trial::file_of;
using trial::Ids;
using trial::marked_model;
using trial::marking_normalizer;
using trial::metaspace;
using trial::sequence;
using trial::split_at;
using trial::tokenizer_of;

void expect_ids(const Tokenizer& tokenizer, const std::vector<Expected>& cases, bool special) {
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text, special), ids) << text;
}

// What the tokens of a text stand for, one behind the other.
std::string bytes_of(const Tokenizer& tokenizer, std::string_view text) {
  std::string bytes;
  for (const Token id : tokenizer.encode(text, false)) bytes += tokenizer.bytes_of(id).value();
  return bytes;
}

const std::vector<std::string> kTexts = {
    "",
    " ",
    "   ",
    "\n\n \t\r\n",
    "Once upon a time, there was a little girl.",
    " leading and trailing  ",
    "naïve café, cafe\u0301",
    "日本語のテキスト。",
    "👍😀 \U0001F468\u200d\U0001F4BB",
    "Привет, мир! שלום हिन्दी",
    "if (x) {\n\t\treturn y;\n}\n",
    "\u00a0\u3000\u2028\u0085z",
    std::string("\0\x01\x7f", 3),
    "\ufffd \ufeff",
    "1234567890 ½Ⅷ",
};

TEST(Shakespeare, HasTheIdsOfItsReference) {
  const Tokenizer tokenizer = Tokenizer::open(std::filesystem::path(DECANT_EXAMPLE_MODELS) /
                                              "shakespeare" / "tokenizer.json");
  EXPECT_EQ(tokenizer.vocabulary(), 1024);
  // clang-format off
  expect_ids(tokenizer, {
    {"", {}},
    {"ROMEO:\nBut soft, what light?", {859, 59, 11, 446, 366, 103, 117, 45, 435, 360, 349, 64}},
    {" two  spaces   three", {757, 112, 33, 411, 98, 100, 279, 33, 33, 284, 798}},
    {"Once upon a time, there was a little girl.", {80, 614, 598, 259, 674, 45, 503, 489, 259, 282, 1012, 303, 314, 109, 47}},
    {"naïve café 日本語 👍", {111, 98, 196, 176, 294, 278, 98, 103, 196, 170, 33, 231, 152, 166, 231, 157, 173, 233, 171, 159, 33, 241, 160, 146, 142}},
    {"12345\t\t<|endoftext|>end", {50, 51, 52, 53, 54, 10, 10, 0, 468}},
  }, true);
  // clang-format on
  // clang-format off
  EXPECT_EQ(tokenizer.encode("12345\t\t<|endoftext|>end", {.find_special = false}),
            (Ids{50, 51, 52, 53, 54, 10, 10, 61, 125, 468, 112, 103, 117, 102, 121, 117, 125, 63, 468}));
  // clang-format on
  for (const std::string& text : kTexts) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_EQ(bytes_of(tokenizer, text), text);
  }
}

TEST(TinyRandomGpt2, HasTheIdsOfItsReference) {
  const auto path = std::filesystem::path(DECANT_SHARED_DATA) / "tiny-random-gpt2/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Tokenizer tokenizer = Tokenizer::open(path);
  // clang-format off
  expect_ids(tokenizer, {
    {"ROMEO:\nBut soft, what light?", {50, 47, 45, 37, 47, 26, 158, 34, 286, 749, 678, 12, 305, 208, 250, 420, 31}},
    {" two  spaces   three", {506, 159, 405, 257, 216, 159, 159, 697}},
    {"Once upon a time, there was a little girl.", {47, 78, 298, 578, 200, 196, 582, 12, 817, 258, 196, 250, 211, 84, 234, 267, 275, 76, 14}},
    {"naïve café 日本語 👍", {78, 65, 125, 107, 711, 212, 65, 70, 125, 102, 159, 151, 183, 98, 151, 188, 105, 153, 103, 190, 159, 191, 177, 173}},
    {"12345\t\t<|endoftext|>end", {17, 18, 19, 20, 21, 0, 483}},
  }, true);
  // clang-format on
}

TEST(TinyStories, HasTheIdsOfItsReference) {
  const auto path = std::filesystem::path(DECANT_SHARED_DATA) / "tinystories-656k/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Tokenizer tokenizer = Tokenizer::open(path);
  // clang-format off
  expect_ids(tokenizer, {
    {"", {1}},
    {"ROMEO:\nBut soft, what light?", {1, 80, 43, 40, 38, 30, 40, 21, 3, 344, 1021, 1689, 563, 158, 786, 25}},
    {" two  spaces   three", {1, 80, 80, 1209, 80, 415, 53, 55, 368, 80, 80, 1161, 57}},
    {"Once upon a time, there was a little girl.", {1, 80, 147, 201, 282, 215, 286, 1890, 10}},
    {"naïve café 日本語 👍", {1, 80, 557, 0, 218, 295, 58, 0, 80, 0, 80, 0}},
    {"12345\t\t<|endoftext|>end", {1, 80, 12, 13, 14, 15, 16, 0, 208, 183, 187, 72, 375, 72, 210, 183}},
  }, true);
  // clang-format on
  for (const std::string text :
       {"", "a", " hello", "  hello", "   Once upon a time", "a  b   c "}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_EQ(bytes_of(tokenizer, text), text.empty() ? "" : " " + text);
  }
}

// Three pre-tokenisers over one vocabulary: digits, contractions and blanks tell them apart.
TEST(Tokenizer, CutsWordsAsTheFamilyOfItsFileDoes) {
  const auto with = [](std::string_view expression, const Json& normalizer) {
    const Json cut =
        sequence("pretokenizers", {split_at("Regex", expression), byte_level(false, false)});
    return tokenizer_of(
        file_of(byte_model(), {{"pre_tokenizer", cut}, {"normalizer", normalizer}}));
  };
  expect_ids(with(trial::kLlama3Expression, nullptr),
             {{"hello  world\n\nhello", {259, 32, 264, 269, 259}},
              {"2024 12345", {267, 52, 32, 274, 52, 53}},
              {"e\u0301 \u212b", {101, 204, 129, 32, 226, 132, 171}}},
             false);
  expect_ids(with(trial::kQwen2Expression, {{"type", "NFC"}}),
             {{"hello  world\n\nhello", {259, 32, 264, 269, 259}},
              {"2024 12345", {50, 48, 50, 52, 32, 49, 50, 51, 52, 53}},
              {"e\u0301 \u212b", {195, 169, 32, 195, 133}}},
             false);
  expect_ids(tokenizer_of(file_of(byte_model(), {{"pre_tokenizer", byte_level(true, true)}})),
             {{"hello  world\n\nhello", {32, 259, 32, 264, 10, 10, 259}},
              {"2024 12345", {32, 268, 32, 274, 52, 53}},
              {"e\u0301 \u212b", {32, 101, 204, 129, 32, 226, 132, 171}}},
             false);
}

Json marked_file(const Json& parts = Json::object()) {
  Json file = file_of(marked_model(), {{"normalizer", marking_normalizer()}});
  file["added_tokens"] =
      Json::array({added_token("<unk>", 0), added_token("<s>", 1), added_token("</s>", 2)});
  file.update(parts);
  return file;
}

TEST(Tokenizer, MarksSpacesAsSentencePieceDoes) {
  expect_ids(tokenizer_of(marked_file()),
             {{"hello world", {19, 24}},
              {" hello", {3, 19}},
              {"  hello", {29, 19}},
              {"   hello", {29, 3, 19}},
              {"", {}},
              {"hello  world ", {19, 3, 24, 3}},
              {" ", {29}},
              {"xyzhello", {3, 0, 18}},
              {"h日本x o", {3, 4, 0, 3, 7}}},
             false);
}

TEST(Tokenizer, MakesACharacterUnknownWhereBytesAreNoTokens) {
  Json file = marked_file();
  file["model"]["byte_fallback"] = true;
  expect_ids(tokenizer_of(file), {{"xyzhello", {3, 0, 18}}, {"h日本x o", {3, 4, 0, 3, 7}}}, false);
}

TEST(Tokenizer, TakesAnAddedTokenAsTheUnknownOne) {
  Json file = file_of(trial::model_of({"a"}, {}));
  file["model"]["unk_token"] = "<u>";
  EXPECT_TRUE(trial::refuses([&] { tokenizer_of(file); }, {"model.unk_token", "<u>"}));
  file["added_tokens"] = Json::array({added_token("<u>", 9)});
  EXPECT_EQ(tokenizer_of(file).encode("a日"), (Ids{0, 9}));
}

TEST(Tokenizer, MarksTheWordAfterAnAddedTokenAsThePrependSchemeSays) {
  const auto with = [](const char* scheme) {
    Json file = file_of(marked_model(), {{"pre_tokenizer", metaspace(scheme)}});
    file["added_tokens"] = Json::array({added_token("<|im_start|>", 30, {{"special", false}})});
    return tokenizer_of(file);
  };
  const Expected alone = {"<|im_start|>", {30}};
  const Expected spaced = {"<|im_start|> user user", {30, 28, 28}};
  expect_ids(
      with("first"),
      {{"<|im_start|>user", {30, 27}}, {"us<|im_start|>user", {3, 25, 30, 27}}, alone, spaced},
      false);
  expect_ids(
      with("always"),
      {{"<|im_start|>user", {30, 28}}, {"us<|im_start|>user", {3, 25, 30, 28}}, alone, spaced},
      false);
  expect_ids(with("never"),
             {{"<|im_start|>user", {30, 27}}, {"us<|im_start|>user", {25, 30, 27}}, alone, spaced},
             false);
}

TEST(Tokenizer, PutsItsTemplateAroundTheText) {
  const auto part = [](const char* kind, const char* id) {
    return Json{{kind, {{"id", id}, {"type_id", 0}}}};
  };
  const Json around = {{"type", "TemplateProcessing"},
                       {"single", Json::array({part("SpecialToken", "<b>"), part("Sequence", "A"),
                                               part("SpecialToken", "<e>")})},
                       {"special_tokens",
                        {{"<b>", {{"id", "<b>"}, {"ids", Json::array({275})}}},
                         {"<e>", {{"id", "<e>"}, {"ids", Json::array({276, 277})}}}}}};
  const Json post = sequence("processors", {byte_level(true, true), around});
  Json file = file_of(byte_model(),
                      {{"pre_tokenizer", byte_level(false, false)}, {"post_processor", post}});
  file["added_tokens"] =
      Json::array({added_token("<b>", 275), added_token("<e>", 276), added_token("<f>", 277)});
  const Tokenizer tokenizer = tokenizer_of(file);
  expect_ids(tokenizer, {{"hello", {275, 259, 276, 277}}, {"", {275, 276, 277}}}, true);
  expect_ids(tokenizer, {{"hello", {259}}, {"", {}}}, false);
}

TEST(Tokenizer, ComparesItsTokensWithAnother) {
  const auto with = [](const char* text, int id) {
    Json file = file_of(byte_model());
    file["added_tokens"] = Json::array({added_token(text, id)});
    return tokenizer_of(file);
  };
  const Tokenizer tokenizer = with("<s>", 280);
  EXPECT_EQ(tokenizer.first_difference(tokenizer), std::nullopt);
  EXPECT_EQ(tokenizer.first_difference(with("<s>", 290)), std::nullopt);  // padding and holes
  EXPECT_EQ(tokenizer.first_difference(with("<t>", 280)), Token{280});
  EXPECT_EQ(with("<t>", 280).first_difference(tokenizer), Token{280});
}

TEST(Tokenizer, AnswersForItsTokens) {
  Json file = file_of(byte_model());
  file["added_tokens"] =
      Json::array({added_token("<s>", 300), added_token("<t>", 280, {{"special", false}})});
  file["decoder"] = byte_level(true, true);
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.vocabulary(), 301);
  EXPECT_EQ(tokenizer.id_of("hello"), 259);
  EXPECT_EQ(tokenizer.id_of("<s>"), 300);
  EXPECT_EQ(tokenizer.id_of("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.spelling(264), "Ġworld");
  EXPECT_EQ(tokenizer.spelling(280), "<t>");
  EXPECT_EQ(tokenizer.bytes_of(264), " world");
  EXPECT_EQ(tokenizer.bytes_of(280), "<t>");
  EXPECT_EQ(tokenizer.bytes_of(279), std::nullopt);
  EXPECT_EQ(tokenizer.encode("<s><t>"), (Ids{300, 280}));
  const Ids ordinary = tokenizer.encode("<s><t>", {.find_special = false});
  EXPECT_EQ(ordinary.size(), 4u);  // three letters, and a token that is not special
  EXPECT_EQ(ordinary.back(), 280);
  for (const Token hole : {-1, 279, 299, 301}) EXPECT_EQ(tokenizer.spelling(hole), std::nullopt);
  Ids unused;
  for (Token id = 275; id < 304; ++id) {
    if (id != 280 && id != 300) unused.push_back(id);
  }
  EXPECT_EQ(tokenizer.unused_ids(304), unused);
  EXPECT_EQ(tokenizer.unused_ids(279), (Ids{275, 276, 277, 278}));
  EXPECT_TRUE(tokenizer.is_special(300));
  for (const Token plain : {-1, 0, 280, 301}) EXPECT_FALSE(tokenizer.is_special(plain));
}

TEST(Tokenizer, GivesTheBytesOfAddedTokensAsItDecodesThem) {
  Json file = file_of(byte_model());
  file["decoder"] = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  file["added_tokens"] =
      Json::array({added_token("▁▁", 300, {{"special", false}}), added_token("<▁>", 301)});
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.bytes_of(300), "  ");
  EXPECT_EQ(tokenizer.bytes_of(301), "<▁>");
}

TEST(Tokenizer, HasTheTokensThatOnlyItsConfigurationAdds) {
  const trial::Folder folder;
  Json file = file_of(byte_model());
  file["added_tokens"] = Json::array({added_token("<s>", 300)});
  folder.write("tokenizer.json", file.dump());
  const auto with = [&](const Json& decoder) {
    folder.write("tokenizer_config.json",
                 Json{{"model_max_length", 1e30}, {"added_tokens_decoder", decoder}}.dump());
    return text::load_tokenizer(folder.path());
  };
  const Json call = {{"content", "<call>"}, {"special", true}, {"normalized", false}};
  const Tokenizer tokenizer = with({{"300", {{"content", "<other>"}}}, {"301", call}});
  EXPECT_EQ(tokenizer.encode("A<call>B"), (Ids{65, 301, 66}));
  EXPECT_TRUE(tokenizer.is_special(301));
  EXPECT_EQ(tokenizer.spelling(300), "<s>");  // the file's own
  EXPECT_EQ(with(Json::object()).vocabulary(), 301);
  EXPECT_TRUE(trial::refuses([&] { with({{"x", call}}); }, {"tokenizer_config.json", "x is not"}));
  EXPECT_TRUE(trial::refuses([&] { with({{"301", 7}}); }, {"301 is not an object"}));
  EXPECT_TRUE(trial::refuses([&] { with({{"-1", call}}); }, {"is -1"}));
  file["added_tokens"] = "none";
  folder.write("tokenizer.json", file.dump());
  EXPECT_TRUE(trial::refuses([&] { with({{"301", call}}); }, {"added_tokens"}));
}

TEST(Tokenizer, SaysAtWhichByteATextIsNotUtf8) {
  const Tokenizer tokenizer = tokenizer_of(file_of(byte_model()));
  for (const char* text : {"abc\xFF", "abc\xC3", "abc\xED\xA0\x80 def"}) {
    try {
      tokenizer.encode(text);
      FAIL() << "accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()),
                "text::Tokenizer::encode: the text is not UTF-8 at byte 3");
    }
  }
}

TEST(Tokenizer, OpensFilesAndNamesThoseThatItCannot) {
  const trial::Folder folder;
  const auto path = folder.write("tokenizer.json", file_of(byte_model()).dump());
  EXPECT_EQ(Tokenizer::open(path).encode("A"), Ids{65});
  EXPECT_TRUE(trial::refuses([&] { Tokenizer::open(folder.path() / "none.json"); }, {"none.json"}));
  const auto cut = folder.write("cut.json", file_of(byte_model()).dump().substr(0, 1000));
  EXPECT_TRUE(trial::refuses([&] { Tokenizer::open(cut); }, {"cut.json", "not valid JSON"}));
}

TEST(Tokenizer, ServesManyThreadsAtOnce) {
  const Tokenizer tokenizer =
      tokenizer_of(file_of(byte_model(), {{"pre_tokenizer", byte_level(false, true)},
                                          {"decoder", byte_level(true, true)}}));
  std::string text;
  for (int i = 0; i < 200; ++i) text += "hello world 2024\n\n";
  const Ids expected = tokenizer.encode(text);
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (int& count : right) {
    threads.emplace_back([&, tokenizer] {  // a copy shares the tables
      for (int i = 0; i < 20; ++i) {
        count += tokenizer.encode(text) == expected && tokenizer.decode(expected) == text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
}

}  // namespace
