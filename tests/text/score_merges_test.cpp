// tests/text/score_merges_test.cpp - merges from scores, against a loop that knows only the scores.
#include <decant/text/detail/bpe.hpp>
#include <decant/text/detail/merges.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace decant;

constexpr auto kAll = [](Token) { return true; };

struct Scored {
  std::vector<std::string> texts;
  std::vector<double> scores;

  text::detail::Vocabulary vocabulary() const {
    text::detail::Vocabulary vocabulary;
    for (std::size_t id = 0; id < texts.size(); ++id) {
      vocabulary.add(texts[id], static_cast<Index>(id), "test");
    }
    return vocabulary;
  }
  std::vector<Token> encode(const std::string& text) const {
    const text::detail::Vocabulary table = vocabulary();
    const text::detail::Bpe bpe(vocabulary(),
                                text::detail::merges_by_score(table, scores, kAll, "test"), {});
    text::detail::BpeScratch scratch;
    std::vector<Token> tokens;
    bpe.encode(text, scratch, tokens);
    return tokens;
  }
  // Joins the two neighbours whose joined text has the highest score, the leftmost of equals, until
  // no joined text is a token.
  std::vector<Token> encode_slowly(const std::string& text) const {
    const text::detail::Vocabulary table = vocabulary();
    std::vector<std::string> symbols;
    for (char letter : text) symbols.emplace_back(1, letter);
    while (true) {
      std::optional<std::size_t> best;
      double score = 0;
      for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
        const auto id = table.find(symbols[at] + symbols[at + 1]);
        if (!id || (best && scores[static_cast<std::size_t>(*id)] <= score)) continue;
        best = at;
        score = scores[static_cast<std::size_t>(*id)];
      }
      if (!best) break;
      symbols[*best] += symbols[*best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
    }
    std::vector<Token> tokens;
    for (const std::string& symbol : symbols) tokens.push_back(*table.find(symbol));
    return tokens;
  }
};

TEST(ScoreMerges, JoinTheHighestScoreFirstAndTheLeftmostOfEquals) {
  const Scored tokens = {{"a", "b", "c", "ab", "bc", "aa", "abc"}, {0, 0, 0, -2, -1, -3, -9}};
  EXPECT_EQ(tokens.encode("abc"), (std::vector<Token>{6}));
  EXPECT_EQ(tokens.encode("aab"), (std::vector<Token>{0, 3}));
  EXPECT_EQ(tokens.encode("aaa"), (std::vector<Token>{5, 0}));
  EXPECT_EQ(tokens.encode("abca"), (std::vector<Token>{6, 0}));
}

TEST(ScoreMerges, DoWhatALoopOverScoresDoes) {
  std::mt19937 random(3);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    Scored tokens = {{"a", "b", "c"}, {0, 0, 0}};
    std::set<std::string> known(tokens.texts.begin(), tokens.texts.end());
    for (int i = 0; i < 25; ++i) {
      std::string text;
      for (int length = 2 + below(4); length > 0; --length) text += "abc"[below(3)];
      if (!known.insert(text).second) continue;
      tokens.texts.push_back(text);
      tokens.scores.push_back(-below(6));  // with many equals
    }
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (int length = below(40); length > 0; --length) text += "abc"[below(3)];
      ASSERT_EQ(tokens.encode(text), tokens.encode_slowly(text)) << text;
    }
  }
}

TEST(ScoreMerges, LeaveOutTokensThatTakeNoPart) {
  const Scored tokens = {{"<", "s", ">", "<s", "<s>"}, {0, 0, 0, -1, 5}};
  const text::detail::Vocabulary table = tokens.vocabulary();
  const auto some = [](Token id) { return id != 4; };
  EXPECT_EQ(text::detail::merges_by_score(table, tokens.scores, some, "test").size(), 1u);
  EXPECT_EQ(text::detail::merges_by_score(table, tokens.scores, kAll, "test").size(), 2u);
  EXPECT_EQ(text::detail::merges_by_score(table, {}, kAll, "test")[0].rank, 0);
}

TEST(ScoreMerges, RefuseTokensBeyondAnyLength) {
  const Scored tokens = {{std::string(1025, 'a')}, {0}};
  const text::detail::Vocabulary table = tokens.vocabulary();
  EXPECT_TRUE(trial::refuses(
      [&] { text::detail::merges_by_score(table, tokens.scores, kAll, "f: tokens"); },
      {"f: tokens: the token 0 has 1025 bytes"}));
}

}  // namespace
