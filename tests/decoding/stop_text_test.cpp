// tests/decoding/stop_text_test.cpp - stop strings across pieces: the text shown is the same for
// every way of cutting it.
#include <decant/decoding/stop.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace decant::decoding {
namespace {

struct Shown {
  std::string text;
  bool stopped = false;

  friend bool operator==(const Shown&, const Shown&) = default;
};

void PrintTo(const Shown& shown, std::ostream* out) {
  *out << '"' << shown.text << '"' << (shown.stopped ? " stopped" : "");
}

Shown show(const std::vector<std::string>& stops, const std::vector<std::string_view>& pieces,
           bool include_stop = false) {
  StopText filter(stops, include_stop);
  std::string text;
  for (std::string_view piece : pieces) text += filter.push(piece);
  text += filter.finish();
  return {text, filter.stopped()};
}

// Bit i of `cut` ends a piece after byte i.
std::vector<std::string_view> cut_at(std::string_view text, unsigned cut) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && (cut >> i & 1u) == 0) continue;
    pieces.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  return pieces;
}

void expect_in_every_cut(const std::vector<std::string>& stops, std::string_view text,
                         const Shown& expected, bool include_stop = false) {
  ASSERT_LT(text.size(), 16u);
  for (unsigned cut = 0; cut < 1u << (text.size() - 1); ++cut) {
    ASSERT_EQ(show(stops, cut_at(text, cut), include_stop), expected) << text << " cut " << cut;
  }
}

TEST(StopText, FindsAStopAcrossPieces) {
  EXPECT_EQ(show({"own fox"}, {"The quick br", "own", " fox", " jumps"}),
            (Shown{"The quick br", true}));
  EXPECT_EQ(show({"five"}, {"four, ", "five", ", six"}), (Shown{"four, ", true}));
  EXPECT_EQ(show({"fox"}, {"brown fox jumps"}), (Shown{"brown ", true}));
}

TEST(StopText, EndsAtTheStopThatStartsFirst) {
  EXPECT_EQ(show({"abcd", "cab"}, {"abcab", "cd!"}), (Shown{"ab", true}));
  EXPECT_EQ(show({"cab", "abcd"}, {"abcab", "cd!"}), (Shown{"ab", true}));
}

TEST(StopText, ShowsTheSameInEveryCut) {
  expect_in_every_cut({"own fox"}, "brown fox jump", {"br", true});
  expect_in_every_cut({"abcd", "cab"}, "abcabcd!", {"ab", true});
  expect_in_every_cut({"aab"}, "aaaabaab", {"aa", true});
  expect_in_every_cut({"abab!", "bab"}, "xababab", {"xa", true});
  expect_in_every_cut({"abcX", "bc"}, "abcXyz", {"", true});
  expect_in_every_cut({"abcX", "bc"}, "abcyz", {"a", true});
  expect_in_every_cut({"zz", "q"}, "no stop here", {"no stop here", false});
  expect_in_every_cut({"there"}, "not the end", {"not the end", false});
}

TEST(StopText, IncludesTheStopExactlyInEveryCut) {
  expect_in_every_cut({"own fox"}, "brown fox jump", {"brown fox", true}, true);
  expect_in_every_cut({"abcd", "cab"}, "abcabcd!", {"abcab", true}, true);
  expect_in_every_cut({"abc", "ab", "abcd"}, "xabcdabc", {"xab", true}, true);
}

TEST(StopText, EndsAtTheShortestOfStopsThatStartTogether) {
  expect_in_every_cut({"abcd", "ab"}, "xabcd", {"xab", true}, true);
}

TEST(StopText, ReleasesWhatCanNoLongerBecomeAStop) {
  StopText filter({"stop!"});
  EXPECT_EQ(filter.push("a st"), "a ");
  EXPECT_EQ(filter.push("op"), "");
  EXPECT_EQ(filter.push(" sign st"), "stop sign ");
  EXPECT_EQ(filter.push("x"), "stx");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopText, ReleasesAPartOfAStopAtTheEnd) {
  StopText filter({"<end>"});
  EXPECT_EQ(filter.push("text <en"), "text ");
  EXPECT_EQ(filter.finish(), "<en");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopText, FindsAStopInTextHeldBackForAnother) {
  StopText filter({"abcX", "bc"});
  EXPECT_EQ(filter.push("abc"), "");  // abcX would start earlier
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.finish(), "a");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopText, ShowsNothingAfterAStop) {
  StopText filter({"."});
  EXPECT_EQ(filter.push("One. Two"), "One");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push(" three. four"), "");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopText, RefusesAnEmptyStop) {
  EXPECT_THROW(StopText({""}), std::invalid_argument);
  EXPECT_THROW(StopText({"a", ""}), std::invalid_argument);
}

TEST(StopText, WithoutStopsPassesEverythingAtOnce) {
  StopText filter({});
  EXPECT_EQ(filter.push("all of it"), "all of it");
  EXPECT_EQ(filter.push(""), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopText, PassesInvalidUtf8) {
  const std::string bytes("a\0b\xFF", 4);
  StopText filter({"zz"});
  EXPECT_EQ(filter.push(bytes), bytes);
  StopText at_zero({std::string("\0", 1)});
  EXPECT_EQ(at_zero.push(bytes), "a");
}

}  // namespace
}  // namespace decant::decoding
