// tests/text/gguf_tokenizer_test.cpp - tokenizers inside GGUF files: published vocabularies with
// the ids that their own tools gave, and small ones for every name and every mistake.
#include <decant/text/detail/gguf_tokenizer.hpp>
#include <decant/text/tokenizer.hpp>

#include "files/written_gguf.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using text::Tokenizer;
using trial::Ids;
using trial::refuses;
using trial::WrittenGguf;

Tokenizer tokenizer_of(const WrittenGguf& file) {
  const std::string bytes = file.bytes();
  return text::load_tokenizer(trial::parse_gguf(bytes));
}
testing::AssertionResult vocabulary_refused(const WrittenGguf& file,
                                            std::initializer_list<std::string_view> parts) {
  return refuses([&] { tokenizer_of(file); }, parts);
}

// <unk> <s> </s> are 0 to 2, the bytes 3 to 258, then the mark, letters and words.
WrittenGguf sentencepiece() {
  WrittenGguf file;
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> kinds = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kHex[static_cast<std::size_t>(byte / 16)] +
                     kHex[static_cast<std::size_t>(byte % 16)] + ">");
    kinds.push_back(6);
  }
  for (const char* text : {"▁", "a", "b", "ab", "▁a", "<sep>"}) tokens.emplace_back(text);
  kinds.insert(kinds.end(), {1, 1, 1, 1, 1, 4});
  std::vector<float> scores(tokens.size(), 0.0f);
  scores[262] = -2.0f;  // ab
  scores[263] = -1.0f;  // ▁a
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", tokens);
  file.integers("tokenizer.ggml.token_type", kinds);
  file.reals("tokenizer.ggml.scores", scores);
  file.number("tokenizer.ggml.bos_token_id", 1);
  file.number("tokenizer.ggml.eos_token_id", 2);
  file.number("tokenizer.ggml.unknown_token_id", 0);
  return file;
}

// Ids 0 to 255 are the bytes, then "ab", "12", "123", "1234", then <|end|>.
WrittenGguf byte_level(std::string_view cuts) {
  WrittenGguf file;
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(text::detail::to_byte_letters(std::string(1, static_cast<char>(byte))));
  }
  for (const char* text : {"ab", "12", "123", "1234", "<|end|>"}) tokens.emplace_back(text);
  std::vector<std::int32_t> kinds(tokens.size(), 1);
  kinds.back() = 3;
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", cuts);
  file.texts("tokenizer.ggml.tokens", tokens);
  file.integers("tokenizer.ggml.token_type", kinds);
  file.texts("tokenizer.ggml.merges", {"a b", "1 2", "12 3", "123 4"});
  file.number("tokenizer.ggml.bos_token_id", 260);
  file.number("tokenizer.ggml.eos_token_id", 260);
  return file;
}

TEST(GgufTokenizer, OfSentencePieceMergesByScore) {
  const Tokenizer tokenizer = tokenizer_of(sentencepiece());
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, 263, 261}));
  EXPECT_EQ(tokenizer.encode("bab", false), (Ids{259, 261, 262}));
  EXPECT_EQ(tokenizer.encode("", false), Ids{});
  EXPECT_EQ(tokenizer.encode(" a", false), (Ids{259, 263}));
  EXPECT_EQ(tokenizer.encode("\u00e9", false), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer.encode("a<sep>a</s>", false), (Ids{263, 264, 263, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 263, 261, 259, 262, 3 + 0xC3, 3 + 0xA9, 2}), "ab ab\u00e9");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" a b")), " a b");
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(264));
  EXPECT_EQ(tokenizer.vocabulary(), 265);
}

TEST(GgufTokenizer, PutsInFrontAndBehindWhatTheFileSays) {
  WrittenGguf file = sentencepiece();
  file.flag("tokenizer.ggml.add_bos_token", false);
  file.flag("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(tokenizer_of(file).encode("a"), (Ids{263, 2}));
  file.flag("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(tokenizer_of(file).encode("a"), (Ids{260, 2}));
  EXPECT_EQ(tokenizer_of(file).decode(Ids{263}), " a");
  file.number("tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.eos_token_id", "add_eos_token"}));
  file = sentencepiece();
  file.remove("tokenizer.ggml.bos_token_id");
  EXPECT_EQ(tokenizer_of(file).encode("a"), Ids{263});
}

TEST(GgufTokenizer, WithoutBytesUsesTheUnknownToken) {
  WrittenGguf file;
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "▁", "a"});
  file.number("tokenizer.ggml.unknown_token_id", 0);
  EXPECT_EQ(tokenizer_of(file).encode("axya"), (Ids{1, 2, 0, 2}));
}

TEST(GgufTokenizer, OfBytesCutsAsItsNameSays) {
  struct Case {
    const char* name;
    Ids ids;  // of "1234 ab<|end|>"
  };
  for (const auto& [name, ids] :
       {Case{"gpt-2", {259, ' ', 256, 260}}, Case{"default", {258, '4', ' ', 256, 260}},
        Case{"llama-bpe", {260, 258, '4', ' ', 256, 260}},
        Case{"llama3", {260, 258, '4', ' ', 256, 260}},
        Case{"qwen2", {'1', '2', '3', '4', ' ', 256, 260}},
        Case{"smollm", {'1', '2', '3', '4', ' ', 256, 260}}}) {
    const Tokenizer tokenizer = tokenizer_of(byte_level(name));
    Ids expected;
    // Ids of bytes are the bytes: the vocabulary lists them in their order.
    for (Token id : ids) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode("1234 ab<|end|>"), expected) << name;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("1234 ab")), "1234 ab") << name;
  }
  EXPECT_TRUE(
      vocabulary_refused(byte_level("tekken"), {"f.gguf: tokenizer.ggml.pre is \"tekken\""}));
}

TEST(GgufTokenizer, OfQwenComposesLetters) {
  const std::string composed = "\u00e9", apart = "e\u0301";
  const Tokenizer qwen = tokenizer_of(byte_level("qwen2"));
  EXPECT_EQ(qwen.encode(apart), qwen.encode(composed));
  const Tokenizer other = tokenizer_of(byte_level("llama-bpe"));
  EXPECT_NE(other.encode(apart), other.encode(composed));
}

TEST(GgufTokenizer, OfLlama3LeavesAPieceThatIsATokenWhole) {
  for (const bool whole : {true, false}) {
    WrittenGguf file = byte_level(whole ? "llama-bpe" : "qwen2");
    file.texts("tokenizer.ggml.merges", {});
    const Ids ids = tokenizer_of(file).encode("ab", false);
    EXPECT_EQ(ids, whole ? (Ids{256}) : (Ids{'a', 'b'}));
  }
}

TEST(GgufTokenizer, RefusesTablesThatDoNotFit) {
  WrittenGguf file = sentencepiece();
  file.reals("tokenizer.ggml.scores", {1, 2});
  EXPECT_TRUE(
      vocabulary_refused(file, {"f.gguf: tokenizer.ggml.scores has 2 scores for 265 tokens"}));
  file.reals("tokenizer.ggml.scores", std::vector<float>(265, std::nanf("")));
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.scores"}));
  file = sentencepiece();
  file.integers("tokenizer.ggml.token_type", {1});
  EXPECT_TRUE(
      vocabulary_refused(file, {"f.gguf: tokenizer.ggml.token_type has 1 entries for 265 tokens"}));
  file.integers("tokenizer.ggml.token_type", std::vector<std::int32_t>(265, 7));
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.token_type has the kind 7"}));
  file = sentencepiece();
  file.texts("tokenizer.ggml.tokens", {"a", "a"});
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.tokens", "\"a\""}));
  file.texts("tokenizer.ggml.tokens", {"\xFF"});
  EXPECT_TRUE(
      vocabulary_refused(file, {"f.gguf: tokenizer.ggml.tokens: the token 0 is not UTF-8"}));
  file.remove("tokenizer.ggml.tokens");
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.tokens is absent"}));
  file.text("tokenizer.ggml.model", "rwkv");
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.model is \"rwkv\""}));
  file.remove("tokenizer.ggml.model");
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.model is absent"}));
}

TEST(GgufTokenizer, RefusesMergesThatDoNotFit) {
  WrittenGguf file = byte_level("gpt-2");
  for (const char* merge : {"a", "a  b", "a b c", ""}) {
    file.texts("tokenizer.ggml.merges", {"a b", merge});
    EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.merges[1] is", "two parts"}))
        << merge;
  }
  file.texts("tokenizer.ggml.merges", {"a c"});
  EXPECT_TRUE(vocabulary_refused(file, {"tokenizer.ggml.merges[0] needs the token \"ac\""}));
  file.texts("tokenizer.ggml.merges", {"a xx"});
  EXPECT_TRUE(vocabulary_refused(file, {"tokenizer.ggml.merges[0] needs the token \"xx\""}));
  file.remove("tokenizer.ggml.merges");
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.merges is absent"}));
  file = byte_level("gpt-2");
  file.flag("tokenizer.ggml.add_space_prefix", true);
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.add_space_prefix is true"}));
  file.remove("tokenizer.ggml.pre");
  EXPECT_TRUE(vocabulary_refused(file, {"f.gguf: tokenizer.ggml.pre is absent"}));
}

TEST(GgufTokenizer, SkipsIdsWithoutAText) {
  WrittenGguf file = sentencepiece();
  file.integers("tokenizer.ggml.token_type", {2, 1, 1, 1});
  file.texts("tokenizer.ggml.tokens", {"<unk>", "", "a", ""});
  file.remove("tokenizer.ggml.scores");
  file.flag("tokenizer.ggml.add_bos_token", false);
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.decode(Ids{2, 1, 3}), "a");
  EXPECT_EQ(tokenizer.vocabulary(), 3);
}

TEST(GgufTokenizer, IsFoundInAFileOrBesideAFolder) {
  const trial::Folder folder;
  const auto path = folder.write("m.gguf", sentencepiece().bytes());
  EXPECT_EQ(text::load_tokenizer(path).encode("ab"), (Ids{1, 263, 261}));
  EXPECT_TRUE(refuses([&] { text::load_tokenizer(folder.path()); }, {"tokenizer.json"}));
  const std::filesystem::path model = std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare";
  if (std::filesystem::exists(model)) {
    EXPECT_EQ(text::load_tokenizer(model).encode("ROMEO:"),
              Tokenizer::open(model / "tokenizer.json").encode("ROMEO:"));
  }
}

// --- published vocabularies ---

std::vector<std::string> split(const std::string& text, const std::string& mark) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (auto at = text.find(mark); at != text.npos; at = text.find(mark, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + mark.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

class PublishedVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedVocabulary, GivesTheReferenceIds) {
  const std::string name = std::string("ggml-vocab-") + GetParam() + ".gguf";
  const std::filesystem::path folder =
      std::filesystem::path(DECANT_SHARED_DATA) / "llama.cpp-vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no vocabularies in " << folder;
  const Tokenizer tokenizer = text::load_tokenizer(folder / name);
  const auto texts = split(trial::read_file(folder / (name + ".inp")), "\n__ggml_vocab_test__\n");
  const auto answers = split(trial::read_file(folder / (name + ".out")), "\n");
  ASSERT_GE(texts.size(), 40u);
  ASSERT_GE(answers.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::istringstream in(answers[i]);
    const Ids expected(std::istream_iterator<Token>(in), {});
    EXPECT_EQ(tokenizer.encode(texts[i], false), expected) << "\"" << texts[i] << "\"";
    EXPECT_EQ(tokenizer.decode(expected), texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PublishedVocabulary, ::testing::Values("gpt-2", "llama-spm"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
