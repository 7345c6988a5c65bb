// tests/files/gguf_test.cpp - files that follow the format's rules, and every way to break them.
#include <decant/files/gguf.hpp>

#include "files/written_files.hpp"
#include "files/written_gguf.hpp"
#include "fuzz/gguf_target.hpp"
#include "law/bits.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using files::Gguf;
using files::GgufType;
using trial::little_endian;
using trial::parse_gguf;
using trial::refuses;
using trial::WrittenGguf;
using trial::WrittenTensor;

constexpr std::uint64_t kF32 = 0, kQ4_0 = 2, kQ8_0 = 8, kQ4_K = 12;

// What is wrong with a file.
testing::AssertionResult refused(const std::string& bytes,
                                 std::initializer_list<std::string_view> parts) {
  return refuses([&] { parse_gguf(bytes); }, parts);
}
// What is wrong with a file that holds these tensors.
testing::AssertionResult refused(const std::vector<WrittenTensor>& tensors,
                                 std::initializer_list<std::string_view> parts) {
  WrittenGguf file;
  file.tensors = tensors;
  return refused(file.bytes(), parts);
}

TEST(Gguf, GivesTensorsByNameWithTheSlowestExtentFirst) {
  for (std::uint64_t version : {2u, 3u}) {
    WrittenGguf file;
    file.version = version;
    file.add_values("x", {2, 3}, {1, 2, 3, 4, 5, 6});
    file.tensor({"y", {32}, kQ8_0, std::string(34, 'q')});
    file.tensor({"z", {256, 2}, kQ4_K, std::string(288, 'k')});
    file.tensor({"w", {32, 1, 2, 1}, kQ4_0, std::string(36, 'w')});
    file.tensor({"scalar", {}, kF32, std::string(4, 's')});
    const std::string bytes = file.bytes();
    const Gguf parsed = parse_gguf(bytes);
    ASSERT_EQ(parsed.tensors().size(), 5u);
    const files::Tensor& x = parsed.tensors().at("x");
    EXPECT_EQ(x.shape, (std::vector<Index>{2, 3}));
    EXPECT_EQ(x.dtype->codec, codec::Type::f32);
    EXPECT_EQ(x.data.size(), 24u);
    EXPECT_EQ(parsed.tensors().at("y").dtype->codec, codec::Type::q8_0);
    EXPECT_EQ(parsed.tensors().at("y").data[33], std::byte{'q'});
    EXPECT_EQ(parsed.tensors().at("z").dtype->name, "Q4_K");
    EXPECT_FALSE(parsed.tensors().at("z").dtype->codec.has_value());
    EXPECT_EQ(parsed.tensors().at("w").shape, (std::vector<Index>{1, 2, 1, 32}));
    EXPECT_EQ(parsed.tensors().at("w").dtype->codec, codec::Type::q4_0);
    EXPECT_EQ(parsed.tensors().at("scalar").data[0], std::byte{'s'});
    EXPECT_EQ(parsed.table().find("y")->file, "f.gguf");
    EXPECT_EQ(parsed.table().find("none"), nullptr);
  }
}

TEST(Gguf, MapsAFileAndMovesWithIt) {
  const trial::Folder folder;
  WrittenGguf written;
  written.tensor({"x", {4}, 24, "abcd"});
  Gguf file = Gguf::open(folder.write("m.gguf", written.bytes()));
  const Gguf moved = std::move(file);
  EXPECT_EQ(moved.tensors().at("x").data[3], std::byte{'d'});
  EXPECT_EQ(moved.table().find("x")->file, (folder.path() / "m.gguf").string());
  EXPECT_TRUE(refuses([&] { Gguf::open(folder.path() / "none.gguf"); }, {"none.gguf"}));
}

TEST(Gguf, IsToldFromAFolderByItsPath) {
  const trial::Folder folder;
  folder.write("m.gguf", "x");
  folder.write("blob", "x");
  std::filesystem::create_directory(folder.path() / "d.gguf");
  EXPECT_TRUE(files::is_gguf(folder.path() / "m.gguf"));
  EXPECT_TRUE(files::is_gguf(folder.path() / "blob"));
  EXPECT_TRUE(files::is_gguf(folder.path() / "none.gguf"));
  EXPECT_FALSE(files::is_gguf(folder.path()));
  EXPECT_FALSE(files::is_gguf(folder.path() / "d.gguf"));
  EXPECT_FALSE(files::is_gguf(folder.path() / "none"));
}

TEST(Gguf, AlignsTensorsAsItSays) {
  WrittenGguf file;
  file.number("general.alignment", 128);
  file.alignment = 128;
  file.tensor({"x", {1}, 24, "x"});
  file.tensor({"y", {1}, 24, "y"});
  const std::string bytes = file.bytes();
  EXPECT_EQ(parse_gguf(bytes).tensors().at("y").data[0], std::byte{'y'});
  for (const char* odd : {"0", "3", "24", "48"}) {
    file.number("general.alignment", std::stoull(odd));
    EXPECT_TRUE(refused(file.bytes(), {"f.gguf: general.alignment is", odd, "power of two"}));
  }
  file.set("general.alignment", GgufType::u64, little_endian(std::uint64_t{1} << 40));
  EXPECT_TRUE(refused(file.bytes(), {"general.alignment is 1099511627776"}));
  file.set("general.alignment", GgufType::i32, little_endian(0xFFFFFFE0, 4));
  EXPECT_TRUE(refused(file.bytes(), {"general.alignment is -32"}));
  file.text("general.alignment", "32");
  EXPECT_TRUE(refused(file.bytes(), {"general.alignment is a string"}));
  file.number("general.alignment", 4096);
  EXPECT_TRUE(refused(file.bytes(), {"f.gguf: the data", "left"}));
}

TEST(Gguf, MustBeginAsOne) {
  const std::string zeros(16, '\0');
  EXPECT_TRUE(refused(std::string(), {"f.gguf: does not begin with GGUF"}));
  EXPECT_TRUE(refused("GGU", {"f.gguf: does not begin with GGUF"}));
  EXPECT_TRUE(refused("GGML" + little_endian(3, 4) + zeros, {"does not begin with GGUF"}));
  for (std::uint64_t version : {0ull, 1ull, 4ull, 0x03000000ull}) {
    EXPECT_TRUE(refused("GGUF" + little_endian(version, 4) + zeros,
                        {"f.gguf: version " + std::to_string(version) + " of GGUF, not 2 or 3"}));
  }
  EXPECT_EQ(parse_gguf("GGUF" + little_endian(3, 4) + zeros).tensors().size(), 0u);
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  const std::string head = "GGUF" + little_endian(3, 4);
  for (std::uint64_t count : {1ull, 1ull << 32, 1ull << 60, ~0ull}) {
    const std::string number = std::to_string(count);
    EXPECT_TRUE(refused(head + little_endian(count) + little_endian(0),
                        {"f.gguf: " + number + " tensors do not fit in the 0 bytes"}));
    EXPECT_TRUE(refused(head + little_endian(0) + little_endian(count),
                        {"f.gguf: " + number + " metadata entries do not fit in the 0 bytes"}));
  }
}

TEST(Gguf, RefusesShapesThatCannotBe) {
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const std::string data(64, '\0');
  EXPECT_TRUE(refused({{"t", {1, 1, 1, 1, 1}, kF32, data}}, {"f.gguf: tensor t has 5 extents"}));
  EXPECT_TRUE(refused({{"t", {4, 0}, kF32, data}}, {"f.gguf: tensor t has the extent 0"}));
  EXPECT_TRUE(
      refused({{"t", {std::uint64_t{1} << 63}, kF32, data}}, {"tensor t has the extent 9"}));
  EXPECT_TRUE(refused({{"t", {huge}, kF32, data}}, {"f.gguf: tensor t has the shape", "63 bits"}));
  EXPECT_TRUE(refused({{"t", {huge, 4}, kF32, data}}, {"f.gguf: tensor t has the shape"}));
  EXPECT_TRUE(refused({{"t", {1ull << 32, 1ull << 32}, kF32, data}}, {"tensor t has the shape"}));
  EXPECT_TRUE(refused({{"t", {32, huge}, kQ8_0, data}}, {"f.gguf: tensor t has the shape"}));
  EXPECT_TRUE(refused({{"t", {31}, kQ8_0, data}}, {"f.gguf: tensor t", "31 elements", "Q8_0"}));
  EXPECT_TRUE(refused({{"t", {16, 2}, kQ4_0, data}}, {"f.gguf: tensor t", "16 elements", "Q4_0"}));
  EXPECT_TRUE(refused({{"t", {32}, kQ4_K, data}}, {"f.gguf: tensor t", "Q4_K", "256"}));
  EXPECT_TRUE(refused({{"t", {}, kQ8_0, data}}, {"f.gguf: tensor t has rows of 1"}));
  for (std::uint64_t format : {4u, 5u, 31u, 99u}) {
    EXPECT_TRUE(refused({{"t", {32}, format, data}},
                        {"f.gguf: tensor t has the element format " + std::to_string(format)}));
  }
}

TEST(Gguf, RefusesTensorsOutsideTheData) {
  const std::string data(64, '\0');
  EXPECT_TRUE(refused({{"t", {17}, kF32, data}}, {"f.gguf: tensor t has 68 bytes at offset 0"}));
  EXPECT_TRUE(refused({{"t", {9}, kF32, data, 32}}, {"tensor t has 36 bytes at offset 32 of 64"}));
  EXPECT_TRUE(refused({{"t", {1}, kF32, data, 96}}, {"tensor t has 4 bytes at offset 96 of 64"}));
  EXPECT_TRUE(refused({{"t", {1}, kF32, data, ~std::uint64_t{31}}}, {"tensor t has 4 bytes"}));
  EXPECT_TRUE(refused({{"t", {1}, kF32, data, 4}}, {"tensor t begins at offset 4", "of 32"}));
}

TEST(Gguf, RefusesTensorsThatOverlapOrShareAName) {
  const std::string data(64, '\0');
  EXPECT_TRUE(refused({{"a", {9}, kF32, data}, {"b", {1}, kF32, "", 32}},
                      {"f.gguf: tensor b overlaps a by 4 bytes"}));
  EXPECT_TRUE(refused({{"b", {1}, kF32, data, 32}, {"a", {9}, kF32, "", 0}},
                      {"f.gguf: tensor b overlaps a by 4 bytes"}));
  EXPECT_TRUE(
      refused({{"a", {1}, kF32, data}, {"b", {1}, kF32, "", 0}}, {"f.gguf: tensor", "overlaps"}));
  EXPECT_TRUE(refused({{"a", {1}, kF32, data}, {"a", {1}, kF32, data}},
                      {"f.gguf: tensor a is given twice"}));
  WrittenGguf file;
  file.tensors = {{"a", {8}, kF32, data}, {"b", {1}, kF32, "", 32}};
  const std::string bytes = file.bytes();
  EXPECT_EQ(parse_gguf(bytes).tensors().size(), 2u);
}

TEST(Gguf, CutAnywhereBeforeItsLastNumberIsRefused) {
  WrittenGguf file = WrittenGguf::llama();
  file.texts("tokenizer.ggml.tokens", {"a", "b"});
  const std::string bytes = file.bytes();
  ASSERT_TRUE(fuzz::accepts_gguf(trial::bytes_of(bytes)));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(fuzz::accepts_gguf(trial::bytes_of(std::string_view(bytes).substr(0, size))))
        << size;
  }
}

TEST(Gguf, WithAnyOneByteChangedIsReadOrRefused) {
  WrittenGguf file = WrittenGguf::llama();
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "\u2581", "a", "\u2581a"});
  file.reals("tokenizer.ggml.scores", {0, -1, -2, -3});
  file.integers("tokenizer.ggml.token_type", {2, 1, 1, 1});
  const std::string bytes = file.bytes();
  int accepted = 0;
  const std::size_t every = trial::kSlowBuild ? 7 : 1;
  for (std::size_t at = 0; at < bytes.size(); at += every * (1 + at / 1024)) {
    for (const char changed : {'\0', '\xFF', static_cast<char>(bytes[at] ^ 1)}) {
      std::string odd = bytes;
      odd[at] = changed;
      accepted += fuzz::accepts_gguf(trial::bytes_of(odd));
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Gguf, FromTheCorpusIsRefusedUnlessItsNameSaysThatItIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/gguf")) {
    const std::string bytes = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid-");
    EXPECT_EQ(fuzz::accepts_gguf(trial::bytes_of(bytes)), valid) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(Gguf, OfTheCorpusHasModelsAndTokenizers) {
  for (const char* name : {"valid-llama.gguf", "valid-gpt2-tokenizer.gguf"}) {
    const std::string bytes =
        trial::read_file(std::filesystem::path(DECANT_FUZZ_CORPUS "/gguf") / name);
    const Gguf file = parse_gguf(bytes);
    EXPECT_TRUE(fuzz::accepts_gguf_tokenizer(file)) << name;
    EXPECT_EQ(fuzz::accepts_model(file), std::string_view(name) == "valid-llama.gguf");
  }
}

}  // namespace
