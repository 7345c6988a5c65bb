// tests/text/text_stream_test.cpp - text that arrives token by token, and adds up to the whole.
#include <decant/text/text_stream.hpp>

#include "files/written_files.hpp"
#include "text/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using text::TextStream;
using text::Tokenizer;
using trial::added_token;
using trial::byte_level;
using trial::byte_model;
using trial::file_of;
using trial::Ids;
using trial::marked_model;
using trial::metaspace;
using trial::refuses;
using trial::tokenizer_of;

using Texts = std::vector<std::string>;

// What each push gives, then what finish gives.
Texts pieces(TextStream stream, const Ids& tokens) {
  Texts texts;
  for (const Token token : tokens) texts.push_back(stream.push(token));
  texts.push_back(stream.finish());
  return texts;
}

Tokenizer byte_tokenizer() {
  Json file = file_of(byte_model(), {{"decoder", byte_level(true, true)}});
  file["added_tokens"] =
      Json::array({added_token("<s>", 275), added_token("é <t>", 276, {{"special", false}})});
  return tokenizer_of(file);
}

// A model with all 256 byte tokens (byte b is 3 + b), "▁hello" 260, "▁world" 261, "▁" 259.
Tokenizer fallback_tokenizer(const Json& decoder) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    tokens.push_back({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'});
  }
  for (const char* token : {"▁", "▁hello", "▁world", "A", "\uFFFD", "▁▁"}) tokens.push_back(token);
  Json file = file_of(trial::model_of(tokens, {}), {{"decoder", decoder}});
  file["added_tokens"] = Json::array({added_token("<s>", 1), added_token("</s>", 2)});
  return tokenizer_of(file);
}
Token of_byte(int byte) { return 3 + byte; }

TEST(TextStream, HoldsBackBytesUntilACharacterIsWhole) {
  const Ids bytes = {0xF0, 0x9F, 0x91, 0x8D, 0xF0, 0x9F, 0x98, 0x80, 'A'};
  const Texts expected = {"", "", "", "\U0001F44D", "", "", "", "\U0001F600", "A", ""};
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), bytes), expected);
  Ids fallback;
  for (const Token byte : bytes) fallback.push_back(of_byte(byte));
  EXPECT_EQ(pieces(TextStream(fallback_tokenizer(trial::marking_decoder())), fallback), expected);
}

TEST(TextStream, FlushesAHalfFinishedCharacterAtTheEnd) {
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), {0xE6, 0xAD}), (Texts{"", "", "\uFFFD"}));
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), {0xE6, 0xAD, 275}), (Texts{"", "", "", "\uFFFD"}));
  const Tokenizer fallback = fallback_tokenizer(trial::marking_decoder());
  EXPECT_EQ(pieces(TextStream(fallback), {of_byte(0xE6), of_byte(0xAD), 2}),
            (Texts{"", "", "", "\uFFFD"}));
}

TEST(TextStream, ReplacesBytesThatAreNoText) {
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), {0xFF, 'A'}), (Texts{"\uFFFD", "A", ""}));
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), {0xE6, 'A'}), (Texts{"", "\uFFFDA", ""}));
  const Tokenizer fallback = fallback_tokenizer(trial::marking_decoder());
  EXPECT_EQ(pieces(TextStream(fallback), {of_byte(0xFF), of_byte('A')}),
            (Texts{"\uFFFD", "A", ""}));
  EXPECT_EQ(pieces(TextStream(fallback), {of_byte(0xE6), 262}), (Texts{"", "\uFFFDA", ""}));
}

TEST(TextStream, PassesARealReplacementCharacterOnce) {
  EXPECT_EQ(pieces(TextStream(byte_tokenizer()), {0xEF, 0xBF, 0xBD, 'A'}),
            (Texts{"", "", "\uFFFD", "A", ""}));
  const Tokenizer fallback = fallback_tokenizer(trial::marking_decoder());
  EXPECT_EQ(pieces(TextStream(fallback), {263, 262}), (Texts{"\uFFFD", "A", ""}));
}

TEST(TextStream, StripsTheFirstSpaceOnce) {
  for (const Json& decoder : {trial::marking_decoder(), metaspace("first"), metaspace("always")}) {
    const Tokenizer tokenizer = fallback_tokenizer(decoder);
    EXPECT_EQ(pieces(TextStream(tokenizer), {260, 261}), (Texts{"hello", " world", ""}));
    EXPECT_EQ(pieces(TextStream(tokenizer), {259, 260}), (Texts{"", " hello", ""}));
    EXPECT_EQ(pieces(TextStream(tokenizer), {264, 260}), (Texts{" ", " hello", ""}));
    EXPECT_EQ(pieces(TextStream(tokenizer), {1, 260}), (Texts{"", "hello", ""}));  // after <s>
    EXPECT_EQ(tokenizer.decode(Ids{260, 261}), "hello world");
  }
  const Tokenizer never = fallback_tokenizer(metaspace("never"));
  EXPECT_EQ(pieces(TextStream(never), {260, 261}), (Texts{" hello", " world", ""}));
}

TEST(TextStream, ContinuesAPrompt) {
  for (const Json& decoder : {trial::marking_decoder(), metaspace("always")}) {
    const Tokenizer tokenizer = fallback_tokenizer(decoder);
    EXPECT_EQ(pieces(TextStream(tokenizer, Ids{1, 260}), {260, 261}),
              (Texts{" hello", " world", ""}));
    EXPECT_EQ(pieces(TextStream(tokenizer, Ids{1}), {260, 261}), (Texts{"hello", " world", ""}));
  }
  // A prompt may end inside a character, too.
  EXPECT_EQ(pieces(TextStream(byte_tokenizer(), Ids{'a', 0xC3}), {0xA9, 'b'}),
            (Texts{"é", "b", ""}));
}

TEST(TextStream, LeavesSpecialTokensOutUnlessAsked) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_EQ(pieces(TextStream(tokenizer), {275, 'a', 276}), (Texts{"", "a", "é <t>", ""}));
  EXPECT_EQ(pieces(TextStream(tokenizer, {}, false), {275, 'a'}), (Texts{"<s>", "a", ""}));
  EXPECT_EQ(tokenizer.decode(Ids{275, 'a', 276}), "aé <t>");
  EXPECT_EQ(tokenizer.decode(Ids{275, 'a', 276}, false), "<s>aé <t>");
}

TEST(TextStream, HasNoTextForAnIdWithoutATokenAndRefusesANegativeOne) {
  TextStream stream(byte_tokenizer());
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push(1'000'000), "");
  EXPECT_THROW(static_cast<void>(stream.push(-1)), std::invalid_argument);
  EXPECT_EQ(stream.push(0xA9), "é");  // as if nothing had been between
  EXPECT_THROW(byte_tokenizer().decode(Ids{-1}), std::invalid_argument);
}

// As GenerateOptions::text calls it.
TEST(TextStream, IsAFunctionOfATokenOrTheEnd) {
  std::function<std::string(std::optional<Token>)> text = TextStream(byte_tokenizer());
  EXPECT_EQ(text(0xC3), "");
  auto copy = text;
  EXPECT_EQ(text(0xA9), "é");
  EXPECT_EQ(copy(std::nullopt), "\uFFFD");
  EXPECT_EQ(text(std::nullopt), "");
}

TEST(TextStream, OutlivesTheTokenizerThatItWasMadeFrom) {
  auto tokenizer = std::make_unique<Tokenizer>(byte_tokenizer());
  TextStream stream(*tokenizer);
  tokenizer.reset();
  EXPECT_EQ(stream.push(259), "hello");
}

Json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}
Json strip(int start, int stop) {
  return {{"type", "Strip"}, {"content", " "}, {"start", start}, {"stop", stop}};
}
Json chain(const std::vector<Json>& steps) { return trial::sequence("decoders", steps); }
const Json kFuse = {{"type", "Fuse"}};

// Tokens 0 to 4.
Tokenizer word_tokenizer(const Json& decoder) {
  return tokenizer_of(
      file_of(trial::model_of({" ", "a", "b", " a ", "ab"}, {}), {{"decoder", decoder}}));
}

// A copy made within a character, or behind a stripped space, goes on for itself.
TEST(TextStream, CopiesGoOnForThemselves) {
  for (const Tokenizer& tokenizer : {byte_tokenizer(), fallback_tokenizer(trial::marking_decoder()),
                                     word_tokenizer(chain({kFuse, replace("String", "aab", "<>")})),
                                     word_tokenizer(chain({replace("Regex", "a+", "-")}))}) {
    Ids tokens(12);
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      tokens[at] =
          static_cast<Token>((at * 7 + 1) % static_cast<std::size_t>(tokenizer.vocabulary()));
    }
    for (std::size_t cut = 0; cut <= tokens.size(); ++cut) {
      TextStream first(tokenizer);
      std::string begin;
      for (std::size_t at = 0; at < cut; ++at) begin += first.push(tokens[at]);
      TextStream second(tokenizer);
      second = first;
      TextStream third = first;
      std::string ends[3];
      TextStream* const streams[] = {&first, &second, &third};
      for (std::size_t at = cut; at < tokens.size(); ++at) {
        for (std::size_t n = 0; n < 3; ++n) ends[n] += streams[n]->push(tokens[at]);
      }
      for (std::size_t n = 0; n < 3; ++n) {
        EXPECT_EQ(begin + ends[n] + streams[n]->finish(), tokenizer.decode(tokens)) << cut;
      }
    }
  }
}

// A sink is a std::function, which has to copy what it holds.
TEST(TextStream, GoesIntoASink) {
  std::string text;
  const std::function<void(Token)> sink = [stream = TextStream(byte_tokenizer()), &text](
                                              Token token) mutable { text += stream.push(token); };
  sink(259);
  EXPECT_EQ(text, "hello");
}

TEST(TokenDecoder, StripsTheEndsOfTheTextBehindAFuse) {
  const Tokenizer tokenizer = word_tokenizer(chain({kFuse, strip(2, 2)}));
  EXPECT_EQ(pieces(TextStream(tokenizer), {0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 0}),
            (Texts{"", "", "", " a", "", "", " ", "  b", "", "  a", "", " ", ""}));
  EXPECT_EQ(pieces(TextStream(tokenizer), {0, 0}), (Texts{"", "", ""}));
}

TEST(TokenDecoder, StripsTheEndsOfEachTokenBeforeAFuse) {
  EXPECT_EQ(pieces(TextStream(word_tokenizer(chain({strip(1, 0)}))), {3, 0, 3}),
            (Texts{"a ", "", "a ", ""}));
  EXPECT_EQ(pieces(TextStream(word_tokenizer(chain({strip(1, 1)}))), {3, 4, 3}),
            (Texts{"a", "ab", "a", ""}));
}

TEST(TokenDecoder, ReplacesAcrossTokensBehindAFuse) {
  const Tokenizer fused = word_tokenizer(chain({kFuse, replace("String", "aab", "<>")}));
  EXPECT_EQ(pieces(TextStream(fused), {1, 1, 1, 2, 1, 4, 1, 0, 1}),
            (Texts{"", "", "a", "<>", "", "<>", "", "a ", "", "a"}));
  const Tokenizer single = word_tokenizer(chain({replace("String", "ab", "<>"), kFuse}));
  EXPECT_EQ(pieces(TextStream(single), {1, 2, 4}), (Texts{"a", "b", "<>", ""}));
}

TEST(TokenDecoder, ReplacesExpressionsInTokens) {
  EXPECT_EQ(pieces(TextStream(word_tokenizer(replace("Regex", "[ab]+", "x"))), {3, 4}),
            (Texts{" x ", "x", ""}));
}

TEST(TokenDecoder, JoinsTokensAsWordsWhereTheFileHasNone) {
  EXPECT_EQ(pieces(TextStream(word_tokenizer(nullptr)), {1, 2, 4}), (Texts{"a", " b", " ab", ""}));
}

TEST(TokenDecoder, RefusesWhatItCannotStreamOrDoesNotKnow) {
  const auto refused = [](const Json& decoder, std::initializer_list<std::string_view> parts) {
    return refuses([&] { word_tokenizer(decoder); }, parts);
  };
  EXPECT_TRUE(refused({{"type", "WordPiece"}}, {"tokenizer.json: decoder.type", "WordPiece"}));
  EXPECT_TRUE(refused({{"type", "CTC"}}, {"decoder.type", "CTC"}));
  EXPECT_TRUE(refused(chain({kFuse, replace("Regex", "a", "b")}),
                      {"decoder.decoders[1].pattern", "streamed"}));
  EXPECT_TRUE(refused(chain({byte_level(true, true), replace("Regex", "a", "b")}),
                      {"decoder.decoders[1].pattern", "streamed"}));
  EXPECT_TRUE(refused(chain({kFuse, replace("String", std::string(257, 'a').c_str(), "")}),
                      {"decoder.decoders[1].pattern", "longer than 256"}));
  EXPECT_TRUE(refused(strip(-1, 0), {"decoder.start is -1"}));
  EXPECT_TRUE(refused(strip(0, 1 << 20), {"decoder.stop is 1048576"}));
  EXPECT_TRUE(refused({{"type", "Strip"}, {"content", "ab"}, {"start", 0}, {"stop", 0}},
                      {"decoder.content"}));
}

// For every chain: valid text at each step, and in sum the text of the whole list.
TEST(TextStream, AddsUpToTheWholeText) {
  std::vector<Tokenizer> tokenizers = {
      byte_tokenizer(),
      fallback_tokenizer(trial::marking_decoder()),
      fallback_tokenizer(metaspace("first")),
      fallback_tokenizer(chain({{{"type", "ByteFallback"}}, kFuse, strip(1, 2)})),
      word_tokenizer(chain({kFuse, replace("String", "aba", " "), strip(3, 3)})),
      word_tokenizer(nullptr)};
  tokenizers.push_back(Tokenizer::open(std::filesystem::path(DECANT_EXAMPLE_MODELS) /
                                       "shakespeare" / "tokenizer.json"));
  std::mt19937 random(11);
  for (const Tokenizer& tokenizer : tokenizers) {
    for (int round = 0; round < 300; ++round) {
      Ids tokens;
      std::uniform_int_distribution<Token> any(0, static_cast<Token>(tokenizer.vocabulary()) + 1);
      for (std::size_t n = random() % 20; n > 0; --n) tokens.push_back(any(random));
      std::string sum;
      for (const std::string& piece : pieces(TextStream(tokenizer), tokens)) {
        ASSERT_EQ(files::find_invalid_utf8(piece), std::nullopt);
        sum += piece;
      }
      ASSERT_EQ(sum, tokenizer.decode(tokens));
      // A prompt takes nothing away and adds nothing.
      const auto cut = static_cast<std::ptrdiff_t>(random() % (tokens.size() + 1));
      const Ids prompt(tokens.begin(), tokens.begin() + cut),
          rest(tokens.begin() + cut, tokens.end());
      std::string answer, before;
      TextStream whole(tokenizer);
      for (const Token token : prompt) before += whole.push(token);
      for (const std::string& piece : pieces(TextStream(tokenizer, prompt), rest)) answer += piece;
      ASSERT_EQ(before + answer, sum);
    }
  }
}

TEST(TextStream, TakesAHundredThousandTokens) {
  TextStream stream(fallback_tokenizer(trial::marking_decoder()));
  std::size_t size = 0;
  for (int i = 0; i < 100'000; ++i) size += stream.push(259).size();
  EXPECT_EQ(size + stream.finish().size(), 99'999u);
}

}  // namespace
