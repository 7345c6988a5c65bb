// tests/files/safetensors_test.cpp - files that follow the format's rules, and every way to break
// them.
#include <decant/files/safetensors.hpp>

#include "files/written_files.hpp"
#include "fuzz/safetensors_target.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace decant;
using files::Safetensors;
using trial::refuses;
using trial::safetensors;

// The file must outlive what is parsed from it.
Safetensors parse_file(std::string_view file) {
  return Safetensors::parse(trial::bytes_of(file), "f.safetensors");
}

std::string tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return sentence("{\"dtype\":\"", dtype, "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                  "}");
}
// A file whose only tensor is called "t".
std::string single(std::string_view dtype, std::string_view shape, std::string_view offsets,
                   std::string_view data = {}) {
  return safetensors("{\"t\":" + tensor(dtype, shape, offsets) + "}", data);
}
std::string two(std::string_view a, std::string_view b, std::size_t bytes) {
  return safetensors(sentence("{\"a\":", a, ",\"b\":", b, "}"), std::string(bytes, '\0'));
}

template <class Number>
Number number(const files::Tensor& tensor) {
  Number value;
  std::memcpy(&value, tensor.data.data(), sizeof(value));
  return value;
}

TEST(Safetensors, GivesTensorsByName) {
  trial::TensorSet set;
  set.add_values("x", {2, 3}, {1, 2, 3, 4, 5, 6});
  set.add_values("y", {1}, {9}, "BF16");
  const std::string bytes = set.file();
  const Safetensors file = parse_file(bytes);
  ASSERT_EQ(file.tensors().size(), 2u);
  const files::Tensor& x = file.tensors().at("x");
  EXPECT_EQ(x.dtype->name, "F32");
  EXPECT_EQ(x.dtype->codec, codec::Type::f32);
  EXPECT_EQ(x.shape, (std::vector<Index>{2, 3}));
  EXPECT_EQ(x.data.size(), 24u);
  EXPECT_EQ(number<float>(x), 1.0f);
  EXPECT_EQ(file.tensors().at("y").dtype->codec, codec::Type::bf16);
  EXPECT_EQ(file.tensors().find("z"), file.tensors().end());
}

TEST(Safetensors, MapsAFileAndMovesWithIt) {
  const trial::Folder folder;
  trial::TensorSet set;
  set.add_values("x", {1}, {42});
  Safetensors file = Safetensors::open(folder.write("m.safetensors", set.file()));
  const Safetensors moved = std::move(file);
  EXPECT_EQ(number<float>(moved.tensors().at("x")), 42.0f);
  EXPECT_EQ(moved.name(), (folder.path() / "m.safetensors").string());
}

TEST(Safetensors, HoldsMetadataOfStrings) {
  const std::string bytes = safetensors(R"({"__metadata__":{"format":"pt","a":"b"}})");
  const Safetensors file = parse_file(bytes);
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("a"), "b");
  EXPECT_TRUE(refuses([] { parse_file(safetensors(R"({"__metadata__":{"n":1}})")); },
                      {"__metadata__.n", "not a string"}));
  EXPECT_TRUE(refuses([] { parse_file(safetensors(R"({"__metadata__":[]})")); }, {"__metadata__"}));
}

TEST(Safetensors, AcceptsSpacesBehindTheHeaderAndNoTensorsAtAll) {
  EXPECT_NO_THROW(parse_file(safetensors("{}      ")));
}

TEST(Safetensors, CountsAnElementProductThatWrapsAsTooLarge) {
  for (const char* shape :
       {"[4294967296,4294967296]", "[4611686018427387904]", "[2305843009213693952,2]",
        "[9223372036854775807,9223372036854775807]"}) {
    EXPECT_TRUE(refuses([&] { parse_file(single("F32", shape, "[0,0]")); }, {"f.safetensors: t."}))
        << shape;
  }
}

TEST(Safetensors, RefusesExtentsThatAreNoCounts) {
  for (const char* shape :
       {"[-1,4]", "[9223372036854775808]", "[0,-1]", "[0,9223372036854775808]", "[1.0]", "[1.5]",
        "[\"1\"]", "[null]", "[[1]]", "[true]", "3", "{}", "null"}) {
    EXPECT_TRUE(refuses([&] { parse_file(single("F32", shape, "[0,0]")); }, {"t.shape"})) << shape;
  }
}

TEST(Safetensors, LetsAZeroExtentAbsorbTheOthers) {
  for (const char* shape :
       {"[0]", "[0,4294967296,4294967296]", "[4294967296,4294967296,4294967296,0]"}) {
    const std::string bytes = single("F32", shape, "[0,0]");
    EXPECT_TRUE(parse_file(bytes).tensors().at("t").data.empty()) << shape;
  }
}

TEST(Safetensors, BoundsTheRank) {
  const auto ones = [](int rank) {
    std::string shape = "[1";
    for (int i = 1; i < rank; ++i) shape += ",1";
    return shape + "]";
  };
  EXPECT_NO_THROW(parse_file(single("F32", ones(32), "[0,4]", "abcd")));
  for (int rank : {33, 2000}) {
    EXPECT_TRUE(
        refuses([&] { parse_file(single("F32", ones(rank), "[0,4]", "abcd")); }, {"t.shape"}));
  }
}

TEST(Safetensors, RefusesTensorsThatOverlap) {
  const std::string first = tensor("F32", "[2]", "[0,8]");
  EXPECT_TRUE(refuses([&] { parse_file(two(first, tensor("F32", "[2]", "[4,12]"), 12)); },
                      {"b overlaps", "4 bytes"}));
  EXPECT_TRUE(refuses([&] { parse_file(two(first, first, 8)); }, {"overlaps"}));
  EXPECT_TRUE(
      refuses([&] { parse_file(two(first, tensor("F32", "[1]", "[4,8]"), 8)); }, {"overlaps"}));
}

TEST(Safetensors, RefusesAHole) {
  const std::string first = tensor("F32", "[1]", "[0,4]");
  EXPECT_TRUE(refuses([&] { parse_file(two(first, tensor("F32", "[1]", "[8,12]"), 12)); },
                      {"hole of 4 bytes before b"}));
  EXPECT_TRUE(refuses([] { parse_file(single("F32", "[1]", "[4,8]", "12345678")); }, {"hole"}));
}

TEST(Safetensors, RefusesBytesBehindTheLastTensor) {
  EXPECT_TRUE(refuses([] { parse_file(single("F32", "[1]", "[0,4]", "12345")); },
                      {"1 bytes", "no tensor"}));
  EXPECT_TRUE(refuses([] { parse_file(safetensors("{}", "x")); }, {"no tensor"}));
}

TEST(Safetensors, ReadsDataThatIsNotAligned) {
  const std::string bytes = safetensors(sentence("{\"a\":", tensor("BF16", "[1]", "[0,2]"),
                                                 ",\"b\":", tensor("F32", "[1]", "[2,6]"), "}"),
                                        trial::cell("BF16", 3) + trial::cell("F32", 5));
  EXPECT_EQ(number<float>(parse_file(bytes).tensors().at("b")), 5.0f);
}

TEST(Safetensors, AcceptsAScalarAndEmptyTensorsAnywhere) {
  const std::string scalar = single("F32", "[]", "[0,4]", trial::cell("F32", 7));
  EXPECT_TRUE(parse_file(scalar).tensors().at("t").shape.empty());
  EXPECT_EQ(number<float>(parse_file(scalar).tensors().at("t")), 7.0f);
  const std::string nothing = tensor("F32", "[0]", "[0,0]");
  EXPECT_NO_THROW(parse_file(two(nothing, tensor("F32", "[1]", "[0,4]"), 4)));
  EXPECT_NO_THROW(parse_file(two(tensor("F32", "[0]", "[4,4]"), tensor("F32", "[1]", "[0,4]"), 4)));
  EXPECT_TRUE(refuses(
      [&] { parse_file(two(tensor("F32", "[0]", "[2,2]"), tensor("F32", "[1]", "[0,4]"), 4)); },
      {"overlaps"}));
}

TEST(Safetensors, RefusesASizeThatShapeAndDtypeDoNotGive) {
  EXPECT_TRUE(
      refuses([] { parse_file(single("F32", "[1]", "[0,0]")); }, {"t.data_offsets", "0 bytes"}));
  EXPECT_TRUE(refuses([] { parse_file(single("F32", "[2]", "[0,4]", "1234")); }, {"F32 [2]"}));
  EXPECT_TRUE(refuses([] { parse_file(single("BF16", "[1]", "[0,4]", "1234")); }, {"BF16 [1]"}));
  EXPECT_TRUE(refuses([] { parse_file(single("F64", "[1]", "[0,4]", "1234")); }, {"F64 [1]"}));
  EXPECT_TRUE(refuses([] { parse_file(single("F4", "[3]", "[0,1]", "1")); }, {"F4 [3]"}));
}

TEST(Safetensors, AcceptsAHeaderInAnyOrder) {
  const std::string bytes = safetensors(sentence("{\"a\":", tensor("F32", "[1]", "[4,8]"),
                                                 ",\"b\":", tensor("F32", "[1]", "[0,4]"), "}"),
                                        trial::cell("F32", 1) + trial::cell("F32", 2));
  const Safetensors file = parse_file(bytes);
  EXPECT_EQ(number<float>(file.tensors().at("a")), 2.0f);
  EXPECT_EQ(number<float>(file.tensors().at("b")), 1.0f);
}

TEST(Safetensors, KnowsDtypesThatAreNoWeightsAndRefusesUnknownOnes) {
  const std::string bytes = single("I64", "[1]", "[0,8]", "12345678");
  EXPECT_FALSE(parse_file(bytes).tensors().at("t").dtype->codec.has_value());
  for (const char* dtype : {"f32", "F128", "", "float32"}) {
    EXPECT_TRUE(
        refuses([&] { parse_file(single(dtype, "[0]", "[0,0]")); }, {"t.dtype", "unknown"}));
  }
}

TEST(Safetensors, RefusesOffsetsThatAreNoRangeOfTheData) {
  for (const char* offsets :
       {"[4,0]", "[0,8]", "[0,9223372036854775807]", "[-4,0]", "[0]", "[]", "[0,4,8]", "4", "null",
        "[0.0,4.0]", "[\"0\",\"4\"]", "[18446744073709551612,0]", "[8,12]"}) {
    EXPECT_TRUE(
        refuses([&] { parse_file(single("F32", "[1]", offsets, "1234")); }, {"t.data_offsets"}))
        << offsets;
  }
}

TEST(Safetensors, RefusesAHeaderLengthThatTheFileDoesNotHave) {
  const std::string body(16, ' ');
  for (std::uint64_t length :
       {17ull, 1000ull, 99'999'999ull, 100'000'001ull, 1ull << 32, ~0ull, ~0ull - 7, 1ull << 63}) {
    EXPECT_TRUE(refuses([&] { parse_file(trial::little_endian(length) + body); },
                        {"f.safetensors: a header of ", std::to_string(length)}));
  }
}

TEST(Safetensors, RefusesAFileCutAnywhere) {
  trial::TensorSet set;
  set.add("x", {2, 3});
  set.add("y", {5}, "F16");
  const std::string whole = set.file();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(
        refuses([&] { parse_file(std::string_view(whole).substr(0, length)); }, {"f.safetensors"}))
        << length;
  }
  EXPECT_NO_THROW(parse_file(whole));
}

TEST(Safetensors, RefusesAHeaderThatIsNoObjectOfTensors) {
  for (const char* header :
       {"", "[]", "1", "\"x\"", "null", "{", "{\"t\":1}", "{\"t\":[]}", "{\"t\":null}",
        "{\"t\":{}}", "{\"t\":{\"dtype\":1,\"shape\":[0],\"data_offsets\":[0,0]}}",
        "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[0]}}", "{\"\xff\":{}}"}) {
    EXPECT_TRUE(refuses([&] { parse_file(safetensors(header)); }, {"f.safetensors"})) << header;
  }
}

TEST(Safetensors, RefusesANameThatAppearsTwice) {
  const std::string nothing = tensor("F32", "[0]", "[0,0]");
  EXPECT_TRUE(
      refuses([&] { parse_file(safetensors("{\"t\":" + nothing + ",\"t\":" + nothing + "}")); },
              {"\"t\" appears twice"}));
}

TEST(Safetensors, FromTheCorpusAreRefusedUnlessTheirNameSaysThatTheyAreValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/safetensors")) {
    const std::string bytes = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid-");
    EXPECT_EQ(fuzz::accepts_safetensors(trial::bytes_of(bytes)), valid) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

}  // namespace
