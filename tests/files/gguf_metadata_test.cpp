// tests/files/gguf_metadata_test.cpp - values of every type, and what is refused about them.
#include <decant/files/gguf.hpp>

#include "files/written_gguf.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace decant;
using files::Gguf;
using files::GgufType;
using trial::gguf_array;
using trial::gguf_text;
using trial::gguf_type;
using trial::little_endian;
using trial::parse_gguf;
using trial::refuses;
using trial::WrittenGguf;

TEST(GgufMetadata, HoldsIntegersAndRealsOfEveryType) {
  WrittenGguf file;
  file.set("u8", GgufType::u8, "\xFF");
  file.set("i8", GgufType::i8, "\xFF");
  file.set("u16", GgufType::u16, little_endian(0xFFFE, 2));
  file.set("i16", GgufType::i16, little_endian(0xFFFE, 2));
  file.set("u32", GgufType::u32, little_endian(0xFFFFFFFF, 4));
  file.set("i32", GgufType::i32, little_endian(0xFFFFFFFD, 4));
  file.set("u64", GgufType::u64, little_endian(std::uint64_t{1} << 62));
  file.set("i64", GgufType::i64, little_endian(~std::uint64_t{0}));
  file.set("f32", GgufType::f32, trial::gguf_f32(-2.5f));
  file.set("f64", GgufType::f64, little_endian(std::bit_cast<std::uint64_t>(0.1)));
  const std::string bytes = file.bytes();
  const Gguf parsed = parse_gguf(bytes);
  const files::GgufMetadata& metadata = parsed.metadata();
  EXPECT_EQ(metadata.size(), 10);
  EXPECT_EQ(metadata.integer("u8"), 255);
  EXPECT_EQ(metadata.integer("i8"), -1);
  EXPECT_EQ(metadata.integer("u16"), 65534);
  EXPECT_EQ(metadata.integer("i16"), -2);
  EXPECT_EQ(metadata.integer("u32"), 4294967295);
  EXPECT_EQ(metadata.integer("i32"), -3);
  EXPECT_EQ(metadata.integer("u64"), Index{1} << 62);
  EXPECT_EQ(metadata.integer("i64"), -1);
  EXPECT_EQ(metadata.number("f32"), -2.5);
  EXPECT_EQ(metadata.number("f64"), 0.1);
  EXPECT_EQ(metadata.number("i16"), -2.0);
  EXPECT_EQ(metadata.integer_or("none", 7), 7);
  EXPECT_EQ(metadata.number_or("none", 0.5), 0.5);
}

TEST(GgufMetadata, HoldsTextsFlagsAndArrays) {
  WrittenGguf file;
  file.text("text", "caf\u00e9");
  file.flag("yes", true);
  file.flag("no", false);
  file.texts("texts", {"a", "", "bc"});
  file.integers("integers", {3, -4});
  file.reals("reals", {0.5f, -1.0f, 2.0f});
  const std::string inner = gguf_array(GgufType::u8, 2, "ab");
  file.set("nested", GgufType::array, gguf_array(GgufType::array, 2, inner + inner));
  const std::string bytes = file.bytes();
  const Gguf parsed = parse_gguf(bytes);
  const files::GgufMetadata& metadata = parsed.metadata();
  EXPECT_EQ(metadata.text("text"), "caf\u00e9");
  EXPECT_TRUE(metadata.flag_or("yes", false));
  EXPECT_FALSE(metadata.flag_or("no", true));
  EXPECT_TRUE(metadata.flag_or("none", true));
  EXPECT_EQ(metadata.text_or("none", "x"), "x");
  EXPECT_EQ(metadata.texts("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(metadata.integers("integers"), (std::vector<Index>{3, -4}));
  EXPECT_EQ(metadata.reals("reals"), (std::vector<double>{0.5, -1.0, 2.0}));
  EXPECT_EQ(metadata.reals("integers"), (std::vector<double>{3, -4}));
  EXPECT_EQ(metadata.at("nested").count, 2);
  EXPECT_EQ(metadata.at("nested").bytes.size(), 2 * inner.size());
}

TEST(GgufMetadata, RefusesValuesOfAnotherTypeByKey) {
  WrittenGguf file;
  file.text("text", "a");
  file.number("number", 1);
  file.real("real", std::numeric_limits<float>::infinity());
  file.integers("integers", {1});
  file.reals("reals", {1});
  file.set("huge", GgufType::u64, little_endian(std::uint64_t{1} << 63));
  const std::string bytes = file.bytes();
  const Gguf parsed = parse_gguf(bytes);
  const files::GgufMetadata& metadata = parsed.metadata();
  EXPECT_TRUE(refuses([&] { metadata.integer("none"); }, {"f.gguf: none is absent"}));
  EXPECT_TRUE(refuses([&] { metadata.integer("text"); }, {"f.gguf: text is a string, not an int"}));
  EXPECT_TRUE(refuses([&] { metadata.integer("real"); }, {"real is a f32, not an integer"}));
  EXPECT_TRUE(refuses([&] { metadata.integer("integers"); }, {"integers is an array of i32"}));
  EXPECT_TRUE(refuses([&] { metadata.integer("huge"); }, {"huge is 9223372036854775808"}));
  EXPECT_TRUE(refuses([&] { metadata.number("real"); }, {"real is not a finite number"}));
  EXPECT_TRUE(refuses([&] { metadata.text("number"); }, {"number is a u32, not a string"}));
  EXPECT_TRUE(refuses([&] { metadata.flag_or("number", true); }, {"number is a u32, not a bool"}));
  EXPECT_TRUE(refuses([&] { metadata.texts("integers"); }, {"integers is an array of i32"}));
  EXPECT_TRUE(refuses([&] { metadata.texts("text"); }, {"text is a string, not an array"}));
  EXPECT_TRUE(refuses([&] { metadata.integers("reals"); }, {"reals is an array of f32"}));
  EXPECT_TRUE(refuses([&] { metadata.integers("number"); }, {"number is a u32, not an array"}));
}

// What is wrong with a file whose only entry is `key` with these bytes behind it.
testing::AssertionResult value_refused(const std::string& type_and_bytes,
                                       std::initializer_list<std::string_view> parts) {
  WrittenGguf file;
  file.add_entry("key", type_and_bytes);
  const std::string bytes = file.bytes();
  return refuses([&] { parse_gguf(bytes); }, parts);
}

TEST(GgufMetadata, RefusesWhatTheFileCannotHold) {
  const auto text = [](std::uint64_t length) {
    return gguf_type(GgufType::text) + little_endian(length) + "abc";
  };
  const auto array = [](GgufType type, std::uint64_t count) {
    return gguf_type(GgufType::array) + gguf_array(type, count, "abcd");
  };
  EXPECT_TRUE(value_refused(text(4), {"f.gguf: key: 4 bytes are needed at byte 47", "has 3 left"}));
  EXPECT_TRUE(value_refused(text(~std::uint64_t{0}), {"f.gguf: key: 18446744073709551615 bytes"}));
  EXPECT_TRUE(value_refused(array(GgufType::u8, 5), {"f.gguf: key: 5 elements", "4 bytes"}));
  EXPECT_TRUE(value_refused(array(GgufType::u64, 1), {"f.gguf: key: 1 elements"}));
  EXPECT_TRUE(
      value_refused(array(GgufType::u64, (std::uint64_t{1} << 61) + 1), {"f.gguf: key: 23058"}));
  EXPECT_TRUE(value_refused(array(GgufType::text, ~std::uint64_t{0}), {"f.gguf: key: 184467"}));
  EXPECT_TRUE(value_refused(gguf_type(GgufType::u32) + "abc", {"f.gguf: key: 4 bytes are needed"}));
  EXPECT_TRUE(value_refused("abc", {"f.gguf: key: 4 bytes are needed at byte 35"}));
}

TEST(GgufMetadata, RefusesUnknownTypesOddFlagsAndDeepArrays) {
  const auto type = [](std::uint64_t number) { return little_endian(number, 4); };
  EXPECT_TRUE(value_refused(type(13) + "abcdefgh", {"f.gguf: key: value type 13"}));
  EXPECT_TRUE(value_refused(type(9) + type(99) + little_endian(0), {"f.gguf: key: value type 99"}));
  EXPECT_TRUE(value_refused(gguf_type(GgufType::flag) + "\2", {"f.gguf: key: a bool", "neither"}));
  EXPECT_TRUE(value_refused(gguf_type(GgufType::array) + gguf_array(GgufType::flag, 2, "\1\7"),
                            {"f.gguf: key: a bool"}));
  std::string nested = gguf_array(GgufType::u8, 1, "a");
  for (int depth = 1; depth < 4; ++depth) nested = gguf_array(GgufType::array, 1, nested);
  WrittenGguf file;
  file.set("key", GgufType::array, nested);
  const std::string deepest = file.bytes();
  EXPECT_EQ(parse_gguf(deepest).metadata().at("key").count, 1);
  EXPECT_TRUE(value_refused(gguf_type(GgufType::array) + gguf_array(GgufType::array, 1, nested),
                            {"f.gguf: key: arrays nested deeper than 4"}));
}

TEST(GgufMetadata, RefusesAKeyThatIsGivenTwice) {
  WrittenGguf file;
  file.number("a", 1);
  file.add_entry("a", gguf_type(GgufType::u32) + little_endian(1, 4));
  const std::string bytes = file.bytes();
  EXPECT_TRUE(refuses([&] { parse_gguf(bytes); }, {"f.gguf: a is given twice"}));
}

}  // namespace
