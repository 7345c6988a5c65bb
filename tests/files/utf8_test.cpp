// tests/files/utf8_test.cpp - every code point, everything that is none, and every way to cut a
// text.
#include <decant/files/utf8.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using files::Utf8Unit;

std::string utf8_of(char32_t code) {
  std::string text;
  files::append_utf8(text, code);
  return text;
}

std::string repaired(std::string_view bytes) {
  files::Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

bool is_scalar(char32_t code) { return code < 0xD800 || (code > 0xDFFF && code < 0x110000); }

TEST(Utf8, ReadsEveryScalarValueThatItWrites) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (!is_scalar(code)) continue;
    const std::string text = utf8_of(code);
    const Utf8Unit unit = files::read_utf8(text, 0);
    ASSERT_EQ(unit.kind, Utf8Unit::whole) << std::hex << std::uint32_t{code};
    ASSERT_EQ(unit.length, text.size());
    ASSERT_EQ(unit.code, code);
  }
  EXPECT_EQ(utf8_of(U'é'), "\xC3\xA9");
  EXPECT_EQ(utf8_of(U'€'), "\xE2\x82\xAC");
  EXPECT_EQ(utf8_of(U'\U0001F44D'), "\xF0\x9F\x91\x8D");
}

// Counts what is accepted: exactly as many sequences as there are scalar values of that length.
TEST(Utf8, AcceptsNoSequenceThatIsNotAScalarValue) {
  int two = 0, three = 0;
  for (int a = 0x80; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string bytes = {static_cast<char>(a), static_cast<char>(b)};
      const Utf8Unit unit = files::read_utf8(bytes, 0);
      two += unit.kind == Utf8Unit::whole && unit.length == 2;
      if (unit.kind != Utf8Unit::cut) continue;
      for (int c = 0; c < 256; ++c) {
        const Utf8Unit longer = files::read_utf8(bytes + static_cast<char>(c), 0);
        three += longer.kind == Utf8Unit::whole && longer.length == 3;
      }
    }
  }
  EXPECT_EQ(two, 0x800 - 0x80);
  EXPECT_EQ(three, 0x10000 - 0x800 - 0x800);
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(files::find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(files::find_invalid_utf8("a\xC3\xA9\xF0\x9F\x91\x8D"), std::nullopt);
  EXPECT_EQ(files::find_invalid_utf8(std::string_view("\0", 1)), std::nullopt);
  EXPECT_EQ(files::find_invalid_utf8("abc\xFF"), 3);
  EXPECT_EQ(files::find_invalid_utf8("\xC3\xA9\xE2\x82"), 2);  // cut
  EXPECT_EQ(files::find_invalid_utf8("a\xED\xA0\x80"), 1);     // surrogate
  EXPECT_EQ(files::find_invalid_utf8("\xF4\x90\x80\x80"), 0);  // beyond U+10FFFF
  EXPECT_EQ(files::find_invalid_utf8("\xC0\xAF"), 0);          // overlong
  EXPECT_EQ(files::find_invalid_utf8("\xE0\x9F\xBF"), 0);      // overlong
}

// The Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ShowsForeignTextOnOneLineAndNotForEver) {
  using namespace std::string_view_literals;
  EXPECT_EQ(files::printable("a\0b\n\x1b[1m\x7f"sv), "a?b??[1m?");
  EXPECT_EQ(files::printable("\u00e4\u0085\u202e\u2066"), "\u00e4???");
  EXPECT_EQ(files::printable("\xff\xe2\x82x"), "\ufffd\ufffdx");
  EXPECT_EQ(files::printable(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(files::printable(std::string(201, 'x')), std::string(200, 'x') + "...");
  const std::string long_text = std::string(199, 'x') + "\u00e4\u00e4";
  EXPECT_EQ(files::printable(long_text), std::string(199, 'x') + "\u00e4...");
  EXPECT_EQ(files::printable_path("new\nline"), "new?line");
}

TEST(Utf8Stream, ReplacesEachMaximalSubpartOnce) {
  const std::string r(files::kReplacement);
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(repaired("\xE1\x80"), r);
}

TEST(Utf8Stream, GivesTheSameTextForEveryCut) {
  const std::string bytes = "a\xC3\xA9\xF0\x9F\x91\x8D\xE2\x82\x41\xEF\xBF\xBD\xFF\xF0\x9F\xF0\x9F";
  const std::string whole = repaired(bytes);
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (bytes.size() - 1); ++cuts) {
    files::Utf8Stream stream;
    std::string text, piece;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      piece += bytes[i];
      if (i + 1 < bytes.size() && (cuts >> i & 1) == 0) continue;
      const std::string out = stream.push(piece);
      ASSERT_EQ(files::find_invalid_utf8(out), std::nullopt);
      text += out;
      piece.clear();
    }
    ASSERT_EQ(text + stream.finish(), whole) << cuts;
  }
}

TEST(Utf8Stream, HoldsBackOnlyWhatMayStillBecomeACharacter) {
  files::Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F\x91"), "");
  EXPECT_EQ(stream.push("\x8D"), "\U0001F44D");
  EXPECT_EQ(stream.push("\xEF\xBF\xBD"), "\uFFFD");  // a real one passes
  EXPECT_EQ(stream.push("\xE6"), "");
  EXPECT_EQ(stream.push("A"), "\uFFFDA");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
