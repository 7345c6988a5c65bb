// tests/text/malformed_tokenizer_test.cpp - files that are no tokenizer.
#include <decant/text/tokenizer.hpp>

#include "files/written_files.hpp"
#include "fuzz/tokenizer_target.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

using namespace decant;
using files::Json;
using trial::added_token;
using trial::file_of;
using trial::refuses;
using trial::tokenizer_of;

TEST(MalformedTokenizer, FromTheCorpusIsRefusedUnlessItsNameSaysThatItIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/tokenizer")) {
    const std::string text = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid-");
    EXPECT_EQ(fuzz::accepts_tokenizer(text), valid) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(MalformedTokenizer, CutAnywhereIsRefused) {
  Json file = file_of(trial::marked_model(), {{"decoder", trial::marking_decoder()},
                                              {"normalizer", trial::marking_normalizer()}});
  file["added_tokens"] = Json::array({added_token("<s>", 1)});
  const std::string text = file.dump();
  ASSERT_TRUE(fuzz::accepts_tokenizer(text));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(fuzz::accepts_tokenizer(std::string_view(text).substr(0, size))) << size;
  }
}

TEST(MalformedTokenizer, IsNamedWithItsFieldInTheSentence) {
  const auto refused = [](const Json& change, std::initializer_list<std::string_view> parts) {
    return refuses([&] { tokenizer_of(file_of(trial::marked_model(), change)); }, parts);
  };
  EXPECT_TRUE(refused({{"version", "2.0"}}, {"tokenizer.json: version", "2.0"}));
  EXPECT_TRUE(refused({{"version", 1.0}}, {"tokenizer.json: version"}));
  EXPECT_TRUE(refused({{"model", nullptr}}, {"tokenizer.json: model is absent"}));
  EXPECT_TRUE(refused({{"model", "BPE"}}, {"tokenizer.json: model"}));
  EXPECT_TRUE(refused({{"normalizer", 1}}, {"tokenizer.json: normalizer"}));
  EXPECT_TRUE(refused({{"pre_tokenizer", Json::array()}}, {"tokenizer.json: pre_tokenizer"}));
  EXPECT_TRUE(refused({{"decoder", "Fuse"}}, {"tokenizer.json: decoder"}));
  EXPECT_TRUE(refused({{"post_processor", {{"type", "BertProcessing"}}}},
                      {"tokenizer.json: post_processor.type", "BertProcessing"}));
  EXPECT_TRUE(refuses([] { text::Tokenizer::parse("[]", "t.json"); }, {"t.json", "not an object"}));
}

TEST(MalformedTokenizer, HasATemplateThatDoesNotHoldTogether) {
  const auto refused = [](const Json& single, const Json& ids,
                          std::initializer_list<std::string_view> parts) {
    const Json post = {{"type", "TemplateProcessing"},
                       {"single", single},
                       {"special_tokens", {{"<s>", {{"ids", ids}}}}}};
    return refuses(
        [&] { tokenizer_of(file_of(trial::marked_model(), {{"post_processor", post}})); }, parts);
  };
  const auto special = [](const char* name) { return Json{{"SpecialToken", {{"id", name}}}}; };
  const Json text = {{"Sequence", {{"id", "A"}}}};
  const Json two = {{"Sequence", {{"id", "B"}}}};
  const Json one = Json::array({1});
  EXPECT_TRUE(refused(Json::array({special("<b>"), text}), one, {"special_tokens", "\"<b>\""}));
  EXPECT_TRUE(
      refused(Json::array({special("<s>")}), one, {"post_processor.single", "0 placeholders"}));
  EXPECT_TRUE(refused(Json::array({text, text}), one, {"post_processor.single", "2 placeholders"}));
  EXPECT_TRUE(refused(Json::array({text, two}), one, {"post_processor.single[1].Sequence"}));
  EXPECT_TRUE(refused(Json::array({Json::object()}), one, {"single[0].Sequence is absent"}));
  const Json usual = Json::array({special("<s>"), text});
  EXPECT_TRUE(refused(usual, Json::array({30}), {"<s>.ids", "30", "[0, 30)"}));
  EXPECT_TRUE(refused(usual, Json::array({-1}), {"<s>.ids", "-1"}));
  EXPECT_TRUE(refused(usual, 1, {"<s>.ids is not an array"}));
}

TEST(MalformedTokenizer, NestedWithoutEndIsRefused) {
  std::string text = R"({"model":{"vocab":{},"merges":[]},"normalizer":)";
  for (int i = 0; i < 100'000; ++i) text += R"({"type":"Sequence","normalizers":[)";
  EXPECT_TRUE(refuses([&] { text::Tokenizer::parse(text, "t.json"); }, {"t.json", "deeper"}));
}

}  // namespace
