// tests/files/sealed_tensors_test.cpp - tensors under a checksum: what was written is read, and
// what was changed is not.
#include <decant/files/sealed_tensors.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace decant;
using files::SealedWriter;

TEST(SealedTensors, AreReadAsTheyWereWritten) {
  const trial::Folder folder;
  const auto path = folder.path() / "file";
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const std::array<std::uint8_t, 3> bytes = {7, 8, 9};
  const std::vector<SealedWriter::Entry> entries = {
      {"values", "F32", {2, 3}}, {"none", "I32", {0, 4}}, {"bytes", "U8", {3}}};
  SealedWriter writer(path, {{"who", "we"}}, entries);
  writer.write(std::as_bytes(std::span(values).first(4)));
  writer.write(std::as_bytes(std::span(values).last(2)));
  writer.write(std::as_bytes(std::span(bytes)));
  writer.commit();
  const std::string whole = trial::read_file(path);
  const files::Safetensors file = files::parse_sealed(trial::bytes_of(whole), "file");
  EXPECT_EQ(file.metadata().at("who"), "we");
  ASSERT_EQ(file.tensors().size(), 4u);
  const files::Tensor& read = file.tensors().at("values");
  EXPECT_EQ(read.shape, (std::vector<Index>{2, 3}));
  EXPECT_EQ(std::memcmp(read.data.data(), values.data(), sizeof values), 0);
  EXPECT_EQ((read.data.data() - trial::bytes_of(whole).data()) % 8, 0);
  EXPECT_TRUE(file.tensors().at("none").data.empty());
  EXPECT_EQ(std::memcmp(file.tensors().at("bytes").data.data(), bytes.data(), 3), 0);
}

TEST(SealedTensors, WithoutAChecksumAtTheEndAreRefused) {
  const auto refused = [](const std::string& file) {
    EXPECT_THROW(files::parse_sealed(trial::bytes_of(file), "x"), FormatError);
  };
  refused(trial::safetensors("{}"));
  refused(
      trial::safetensors(R"({"checksum": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}})",
                         std::string(8, '\0')));
  refused(trial::safetensors(R"({"checksum": {"dtype": "U64", "shape": [1], "data_offsets": [0, 8]},
                                 "more": {"dtype": "U8", "shape": [1], "data_offsets": [8, 9]}})",
                             std::string(9, '\0')));
  refused(
      trial::safetensors(R"({"checksum": {"dtype": "U64", "shape": [1], "data_offsets": [0, 8]}})",
                         std::string(8, '\0')));
}

}  // namespace
