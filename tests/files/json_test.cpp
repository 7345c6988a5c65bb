// tests/files/json_test.cpp - JSON that is broken, doubled, too deep, or of the wrong type.
#include <decant/files/json.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using namespace decant;
using files::Json;
using files::JsonObject;
using files::parse_json;
using trial::refuses;

TEST(Json, RefusesWhatIsNotOneValue) {
  for (const char* text :
       {"", " ", "{", "{\"a\":}", "{\"a\":1,}", "[1 2]", "{} {}", "nul", "NaN", "{\"a\":Infinity}",
        "{\"a\":-Infinity}", "'a'", "\"\xff\"", "1e999", "\"\\ud800\"", "{1:2}", "// note\n1"}) {
    EXPECT_TRUE(refuses([&] { parse_json(text, "f.json"); }, {"f.json"})) << text;
  }
}

TEST(Json, RefusesWhatStandsBehindANul) {
  using namespace std::string_view_literals;
  for (std::string_view text : {"{}\0"sv, "{}\0 garbage"sv, "{\0}"sv, "\0"sv}) {
    EXPECT_TRUE(refuses([&] { parse_json(text, "f.json"); }, {"f.json", "NUL at byte"}));
  }
}

TEST(Json, RefusesAKeyThatAppearsTwiceInOneObject) {
  EXPECT_TRUE(refuses([] { parse_json(R"({"a":1,"a":1})", "f"); }, {"\"a\" appears twice"}));
  EXPECT_TRUE(refuses([] { parse_json(R"([{"x":{"b":1,"c":{},"b":2}}])", "f"); }, {"\"b\""}));
  EXPECT_TRUE(refuses([] { parse_json(R"({"a":1,"\u0061":1})", "f"); }, {"\"a\" appears twice"}));
}

TEST(Json, AcceptsTheSameKeyInDifferentObjects) {
  EXPECT_EQ(parse_json(R"({"a":{"a":[{"a":1},{"a":2}]}})", "f")["a"]["a"][1]["a"], 2);
}

TEST(Json, BoundsItsNesting) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_NO_THROW(parse_json(nested(files::kMaxJsonDepth), "f"));
  EXPECT_TRUE(
      refuses([&] { parse_json(nested(files::kMaxJsonDepth + 1), "f"); }, {"deeper than 64"}));
  EXPECT_TRUE(refuses([&] { parse_json(nested(1'000'000), "f"); }, {"deeper than 64"}));
}

TEST(Json, QuotesOnlyTheBeginningOfAnError) {
  EXPECT_TRUE(refuses([] { parse_json(std::string(100'000, '1') + "x", "f"); }, {"f: is not"}));
  try {
    parse_json("\"" + std::string(100'000, 'a'), "f");
  } catch (const FormatError& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 400u);
  }
}

TEST(Json, RefusesInPrintableSentences) {
  EXPECT_TRUE(refuses([] { parse_json(R"({"a\n":1,"a\n":2})", "f"); }, {"\"a?\" appears twice"}));
}

class JsonFields : public ::testing::Test {
 protected:
  Json json_ = parse_json(
      R"({"int":7,"negative":-2,"float":8.0,"text":"x","yes":true,"none":null,"list":[],
          "big":9223372036854775808,"most":9223372036854775807,"inner":{"deep":{"x":"y"}}})",
      "f.json");
  JsonObject object_{json_, "f.json"};
};

TEST_F(JsonFields, ComeInTheirTypes) {
  EXPECT_EQ(object_.integer("int"), 7);
  EXPECT_EQ(object_.integer("negative"), -2);
  EXPECT_EQ(object_.integer("most"), INT64_MAX);
  EXPECT_EQ(object_.number("int"), 7.0);
  EXPECT_EQ(object_.number("float"), 8.0);
  EXPECT_EQ(object_.text("text"), "x");
  EXPECT_TRUE(object_.flag_or("yes", false));
  EXPECT_EQ(object_.object("inner")->object("deep")->text("x"), "y");
}

TEST_F(JsonFields, HaveDefaultsWhereAbsentOrNull) {
  for (const char* key : {"none", "nowhere"}) {
    EXPECT_EQ(object_.integer_or(key, 5), 5);
    EXPECT_EQ(object_.number_or(key, 0.5), 0.5);
    EXPECT_EQ(object_.text_or(key, "d"), "d");
    EXPECT_TRUE(object_.flag_or(key, true));
    EXPECT_FALSE(object_.object(key).has_value());
    EXPECT_FALSE(object_.has(key));
    EXPECT_TRUE(refuses([&] { object_.integer(key); }, {"f.json: ", key, "is absent"}));
  }
  EXPECT_TRUE(object_.mentions("none"));
  EXPECT_FALSE(object_.mentions("nowhere"));
}

TEST_F(JsonFields, OfTheWrongTypeAreRefusedByNameAndValue) {
  EXPECT_TRUE(refuses([&] { object_.integer("float"); }, {"f.json: float is 8.0"}));
  EXPECT_TRUE(refuses([&] { object_.integer("big"); }, {"big is 9223372036854775808"}));
  EXPECT_TRUE(refuses([&] { object_.integer("text"); }, {"text is string"}));
  EXPECT_TRUE(refuses([&] { object_.integer("yes"); }, {"yes is boolean"}));
  EXPECT_TRUE(refuses([&] { object_.number("text"); }, {"text is string"}));
  EXPECT_TRUE(refuses([&] { object_.text("int"); }, {"int is 7"}));
  EXPECT_TRUE(refuses([&] { object_.flag_or("int", true); }, {"int is number"}));
  EXPECT_TRUE(refuses([&] { object_.object("list"); }, {"list is array, not an object"}));
  EXPECT_TRUE(
      refuses([&] { object_.object("inner")->integer("deep"); }, {"f.json: inner.deep is object"}));
}

}  // namespace
