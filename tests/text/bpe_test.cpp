// tests/text/bpe_test.cpp - merging, against a loop that searches for the best merge each time,
// and what becomes of characters that have no token.
#include <decant/text/detail/bpe.hpp>
#include <decant/text/detail/spelling.hpp>
#include <decant/text/detail/vocabulary.hpp>

#include "files/written_files.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using text::detail::Bpe;
using trial::Ids;
using trial::model_of;
using trial::refuses;

Bpe read(const Json& model) {
  Bpe bpe = Bpe::read(files::JsonObject(model, "tokenizer.json", "model"));
  if (const auto& unknown = bpe.unknown_text()) {
    if (const auto id = bpe.vocabulary().find(*unknown)) bpe.set_unknown(*id);
  }
  return bpe;
}

Ids encode(const Bpe& bpe, std::string_view piece) {
  text::detail::BpeScratch scratch;
  Ids tokens;
  bpe.encode(piece, scratch, tokens);
  return tokens;
}

TEST(ByteLetters, SpellEveryByteWithALetterOfItsOwn) {
  std::set<std::string> letters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string raw(1, static_cast<char>(byte));
    const std::string letter = text::detail::to_byte_letters(raw);
    EXPECT_TRUE(letters.insert(letter).second);
    EXPECT_EQ(text::detail::from_byte_letters(letter), raw);
  }
  EXPECT_EQ(text::detail::to_byte_letters(" \n\t!~\x7F\xA0\xAD\xFF"), "ĠĊĉ!~ġłŃÿ");
  EXPECT_EQ(text::detail::from_byte_letters("a b"), std::nullopt);  // a space is no letter
  EXPECT_EQ(text::detail::from_byte_letters("日"), std::nullopt);
  EXPECT_EQ(text::detail::from_byte_letters("\u0144"),
            std::nullopt);  // the first one behind the letters
}

TEST(Vocabulary, FindsBothWaysAndKnowsItsHoles) {
  text::detail::Vocabulary words;
  words.add("b", 5, "f");
  words.add("", 0, "f");
  EXPECT_EQ(words.size(), 6);
  EXPECT_EQ(words.find("b"), 5);
  EXPECT_EQ(words.find("c"), std::nullopt);
  EXPECT_EQ(*words.find(5), "b");
  for (const Token hole : {-1, 1, 4, 6, 1 << 30}) EXPECT_EQ(words.find(hole), nullptr);
}

TEST(Vocabulary, RefusesAnIdOrATextThatIsTaken) {
  text::detail::Vocabulary words;
  words.add("a", 1, "f: vocab");
  EXPECT_TRUE(refuses([&] { words.add("b", 1, "f: vocab"); }, {"f: vocab", "\"a\"", "\"b\""}));
  EXPECT_TRUE(refuses([&] { words.add("a", 2, "f: vocab"); }, {"f: vocab", "\"a\"", "1 and 2"}));
  EXPECT_TRUE(refuses([&] { words.add("c", -1, "f: vocab"); }, {"f: vocab", "-1", "\"c\""}));
  EXPECT_TRUE(
      refuses([&] { words.add("c", text::detail::kMaxVocabulary, "f: vocab"); }, {"4194304"}));
  EXPECT_TRUE(refuses([&] { words.add("c", Index{1} << 32, "f: vocab"); }, {"4294967296"}));
  EXPECT_EQ(words.size(), 2);
}

TEST(Bpe, MergesWhatTheFileListsFirst) {
  const Bpe bpe = read(model_of({"a", "b", "c"}, {{"b", "c"}, {"a", "b"}, {"ab", "c"}}));
  EXPECT_EQ(encode(bpe, "abc"), (Ids{0, 3}));  // bc before ab
  EXPECT_EQ(encode(bpe, "abab"), (Ids{4, 4}));
  EXPECT_EQ(encode(bpe, ""), Ids{});
  EXPECT_EQ(encode(bpe, "c"), Ids{2});
}

TEST(Bpe, MergesTheLeftmostOfEqualMerges) {
  const Bpe bpe = read(model_of({"a"}, {{"a", "a"}, {"aa", "a"}}));
  EXPECT_EQ(encode(bpe, "aaa"), Ids{2});
  EXPECT_EQ(encode(bpe, "aaaaa"), (Ids{1, 2}));
}

// One pass of the definition: the merge of lowest rank, leftmost first, until there is none.
Ids merged_slowly(Ids tokens,
                  const std::map<std::pair<Token, Token>, std::pair<int, Token>>& merges) {
  for (;;) {
    std::optional<std::size_t> best;
    int best_rank = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges.find({tokens[i], tokens[i + 1]});
      if (found == merges.end() || (best && found->second.first >= best_rank)) continue;
      best = i;
      best_rank = found->second.first;
    }
    if (!best) return tokens;
    const auto at = static_cast<std::ptrdiff_t>(*best);
    tokens[*best] = merges.at({tokens[*best], tokens[*best + 1]}).second;
    tokens.erase(tokens.begin() + at + 1);
  }
}

TEST(Bpe, EqualsTheSlowDefinitionOnRandomVocabularies) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> words = {"a", "b", "c"};
    trial::Merges listed;
    std::set<std::string> made(words.begin(), words.end());
    while (listed.size() < 25) {
      std::string left = words[random() % words.size()], right = words[random() % words.size()];
      if (left.size() + right.size() > 6 || !made.insert(left + right).second) continue;
      words.push_back(left + right);
      listed.emplace_back(left, right);
    }
    const Bpe bpe = read(model_of({"a", "b", "c"}, listed));
    std::map<std::pair<Token, Token>, std::pair<int, Token>> merges;
    for (const auto& [left, right] : listed) {
      const int rank = static_cast<int>(merges.size());
      merges[{*bpe.vocabulary().find(left), *bpe.vocabulary().find(right)}] = {
          rank, *bpe.vocabulary().find(left + right)};
    }
    for (int text = 0; text < 40; ++text) {
      std::string piece;
      Ids characters;
      for (std::size_t n = random() % 30; n > 0; --n) {
        const auto letter = static_cast<Token>(random() % 3);
        piece.push_back(static_cast<char>('a' + letter));
        characters.push_back(letter);
      }
      ASSERT_EQ(encode(bpe, piece), merged_slowly(characters, merges)) << piece;
    }
  }
}

TEST(Bpe, EncodesAPieceAsLongAsABook) {
  const Bpe bpe = read(trial::marked_model());
  std::string piece;
  for (int i = 0; i < 100'000; ++i) piece += i % 3 == 0 ? "▁world" : "▁hello";
  const Ids tokens = encode(bpe, piece);
  ASSERT_EQ(tokens.size(), 100'000u);
  EXPECT_EQ(tokens[0], 24);
  EXPECT_EQ(tokens[99'999], 24);
  EXPECT_EQ(tokens[99'998], 19);
}

TEST(Bpe, ReadsMergesInBothSpellings) {
  Json model = {{"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", Json::array({"a b"})}};
  EXPECT_EQ(encode(read(model), "abb"), (Ids{2, 1}));
  model["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(encode(read(model), "abb"), (Ids{2, 1}));
}

TEST(Bpe, MergesPartsThatContainSpaces) {
  const Bpe bpe = read(model_of({"a", " "}, {{" ", " "}, {"a", " "}}));
  EXPECT_EQ(encode(bpe, "a  "), (Ids{0, 2}));
  EXPECT_EQ(encode(bpe, "a "), (Ids{3}));
  EXPECT_EQ(encode(bpe, "a   "), (Ids{0, 2, 1}));
  EXPECT_EQ(encode(bpe, "  a "), (Ids{2, 3}));
}

TEST(Bpe, RefusesAnAmbiguousMerge) {
  Json model = model_of({"a", " "}, {{" ", " "}, {"a", " "}});
  for (const char* merge : {"   ", "a  ", "  a", "a b c", "ab", ""}) {
    model["merges"] = Json::array({merge});
    EXPECT_TRUE(refuses([&] { read(model); }, {"model.merges[0]", "one space"})) << merge;
  }
}

TEST(Bpe, RefusesMergesThatAreNotTwoTokens) {
  Json model = model_of({"a", "b"}, {{"a", "b"}});
  const auto refused = [&](const Json& merges, std::initializer_list<std::string_view> parts) {
    model["merges"] = merges;
    return refuses([&] { read(model); }, parts);
  };
  EXPECT_TRUE(refused(Json::array({"a b", "a c"}), {"model.merges[1]", "\"ac\""}));
  EXPECT_TRUE(refused(Json::array({"b a"}), {"model.merges[0]", "\"ba\""}));
  EXPECT_TRUE(refused(Json::array({Json::array({"a", "b", "a"})}), {"model.merges[0]", "3 parts"}));
  EXPECT_TRUE(refused(Json::array({Json::array({"a"})}), {"model.merges[0]", "1 parts"}));
  EXPECT_TRUE(refused(Json::array({Json::array({"a", 1})}), {"model.merges[0]", "not a string"}));
  EXPECT_TRUE(refused(Json::array({7}), {"model.merges[0]", "not a string"}));
  EXPECT_TRUE(refused("a b", {"model.merges", "not an array"}));
  EXPECT_TRUE(refused(nullptr, {"model.merges is absent"}));
}

TEST(Bpe, RefusesAVocabularyThatIsNone) {
  const auto refused = [](const Json& vocabulary, std::initializer_list<std::string_view> parts) {
    const Json model = {{"vocab", vocabulary}, {"merges", Json::array()}};
    return refuses([&] { read(model); }, parts);
  };
  EXPECT_TRUE(refused({{"a", 0}, {"b", 0}}, {"tokenizer.json: model.vocab", "\"a\"", "\"b\""}));
  EXPECT_TRUE(refused({{"a", -1}}, {"model.vocab", "-1"}));
  EXPECT_TRUE(refused({{"a", 4194304}}, {"model.vocab", "4194304"}));
  EXPECT_TRUE(refused({{"a", 18446744073709551615u}}, {"model.vocab", "18446744073709551615"}));
  EXPECT_TRUE(refused({{"a", 1.5}}, {"model.vocab", "1.5"}));
  EXPECT_TRUE(refused({{"a", "0"}}, {"model.vocab", "string"}));
  EXPECT_TRUE(refused(Json::array({"a"}), {"model.vocab", "not an object"}));
  EXPECT_TRUE(refused(nullptr, {"model.vocab is absent"}));
}

TEST(Bpe, RefusesOptionsThatItDoesNotHave) {
  const auto refused = [](const char* option, const Json& value) {
    Json model = model_of({"a"}, {});
    model[option] = value;
    return refuses([&] { read(model); }, {std::string("tokenizer.json: model.") + option});
  };
  EXPECT_TRUE(refused("type", "WordPiece"));
  EXPECT_TRUE(refused("type", "Unigram"));
  EXPECT_TRUE(refused("dropout", 0.1));
  EXPECT_TRUE(refused("continuing_subword_prefix", "##"));
  EXPECT_TRUE(refused("end_of_word_suffix", "</w>"));
  EXPECT_TRUE(refused("byte_fallback", "yes"));
  EXPECT_TRUE(refused("unk_token", 0));
  Json model = model_of({"a"}, {});
  model.update({{"dropout", nullptr}, {"end_of_word_suffix", ""}, {"unk_token", nullptr}});
  model.erase("type");  // as in GPT-2's own file
  EXPECT_EQ(encode(read(model), "a"), Ids{0});
}

TEST(Bpe, FusesUnknownCharactersOnlyWhereTheFileSaysSo) {
  Json model = model_of({"?", "a"}, {});
  model["unk_token"] = "?";
  EXPECT_EQ(encode(read(model), "x日a日"), (Ids{0, 0, 1, 0}));
  model["fuse_unk"] = true;
  EXPECT_EQ(encode(read(model), "x日a日"), (Ids{0, 1, 0}));
}

TEST(Bpe, DropsUnknownCharactersWithoutAnUnknownToken) {
  const Bpe bpe = read(model_of({"a", "b"}, {{"a", "b"}}));
  EXPECT_EQ(encode(bpe, "a日b"), Ids{2});  // what remains is adjacent
  EXPECT_EQ(encode(bpe, "日"), Ids{});
}

TEST(Bpe, FallsBackToBytesOnlyIfAllOfThemAreTokens) {
  Json model = model_of({"?", "a", "<0xE6>", "<0x97>", "<0xA5>", "<0x78>"}, {});
  model.update({{"unk_token", "?"}, {"byte_fallback", true}, {"fuse_unk", true}});
  const Bpe bpe = read(model);
  EXPECT_EQ(encode(bpe, "日x"), (Ids{2, 3, 4, 5}));
  EXPECT_EQ(encode(bpe, "x本日"), (Ids{5, 0, 2, 3, 4}));  // in the order of the text
  EXPECT_EQ(encode(bpe, "本x本"), (Ids{0, 5, 0}));        // bytes part unknowns
  model["byte_fallback"] = false;
  EXPECT_EQ(encode(read(model), "日xa"), (Ids{0, 1}));
}

TEST(Bpe, FallsBackToUnknownWhereTheVocabularyHasNoBytes) {
  Json model = model_of({"?", "a"}, {});
  model.update({{"unk_token", "?"}, {"byte_fallback", true}});
  EXPECT_EQ(encode(read(model), "a日"), (Ids{1, 0}));
  model["unk_token"] = nullptr;
  EXPECT_EQ(encode(read(model), "a日"), Ids{1});
}

TEST(Bpe, IgnoresMergesForAWholePieceWhereTheFileSaysSo) {
  Json model = {{"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"aba", 3}}},
                {"merges", Json::array({"a b"})}};
  EXPECT_EQ(encode(read(model), "aba"), (Ids{2, 0}));
  model["ignore_merges"] = true;
  EXPECT_EQ(encode(read(model), "aba"), Ids{3});
  EXPECT_EQ(encode(read(model), "abab"), (Ids{2, 2}));
}

TEST(Bpe, CountsTheLastOfAMergeThatIsListedTwice) {
  const Json model = {{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}}},
                      {"merges", Json::array({"a b", "b c", "a b"})}};
  EXPECT_EQ(encode(read(model), "abc"), (Ids{0, 4}));
}

}  // namespace
