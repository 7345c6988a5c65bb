// tests/files/tensor_files_test.cpp - one file or shards, and indexes that do not tell the truth.
#include <decant/files/tensor_files.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

namespace {

using namespace decant;
using files::TensorFiles;
using trial::refuses;

constexpr const char* kIndex = "model.safetensors.index.json";

trial::TensorSet tensors(std::initializer_list<const char*> names) {
  trial::TensorSet set;
  for (const char* name : names) set.add(name, {2});
  return set;
}

// Tensors "a" and "b" in one shard, "c" in another.
class Shards : public ::testing::Test {
 protected:
  Shards() {
    folder_.write("one.safetensors", tensors({"a", "b"}).file());
    folder_.write("two.safetensors", tensors({"c"}).file());
    index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})");
  }
  void index(const std::string& map) {
    folder_.write(kIndex, R"({"metadata":{"total_size":24},"weight_map":)" + map + "}");
  }
  TensorFiles open() const { return TensorFiles::open(folder_.path()); }

  trial::Folder folder_;
};

TEST_F(Shards, AreReadAsOneSet) {
  TensorFiles opened = open();
  const TensorFiles files = std::move(opened);
  ASSERT_EQ(files.table().entries().size(), 3u);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_NE(files.table().find(name), nullptr) << name;
    EXPECT_EQ(files.table().find(name)->tensor->shape, (std::vector<Index>{2}));
    EXPECT_EQ(files.table().find(name)->tensor->data.size(), 8u);
  }
  EXPECT_NE(files.table().find("c")->file.find("two.safetensors"), std::string_view::npos);
  EXPECT_EQ(files.table().find("d"), nullptr);
}

TEST_F(Shards, GiveWayToASingleFile) {
  folder_.write("model.safetensors", tensors({"x"}).file());
  EXPECT_NE(open().table().find("x"), nullptr);
  EXPECT_EQ(open().table().find("a"), nullptr);
}

TEST_F(Shards, ThatAreMissingAreNamed) {
  std::filesystem::remove(folder_.path() / "two.safetensors");
  EXPECT_TRUE(refuses([&] { open(); }, {"two.safetensors", "No such file"}));
  index(R"({"a":"one.safetensors","b":"one.safetensors","lm_head.weight":"three.safetensors"})");
  EXPECT_TRUE(refuses([&] { open(); }, {"three.safetensors", "No such file"}));
}

TEST_F(Shards, ThatAreDamagedAreNamed) {
  folder_.write("two.safetensors", "12345678");
  EXPECT_TRUE(refuses([&] { open(); }, {"two.safetensors: a header of"}));
}

TEST_F(Shards, MustHoldWhatTheIndexSays) {
  index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  EXPECT_TRUE(refuses([&] { open(); }, {"one.safetensors", "a tensor b", "does not place there"}));
  index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors",
            "d":"two.safetensors"})");
  EXPECT_TRUE(refuses([&] { open(); }, {"two.safetensors", "no tensor d"}));
}

TEST_F(Shards, MustHoldNothingElse) {
  index(R"({"a":"one.safetensors","c":"two.safetensors"})");
  EXPECT_TRUE(refuses([&] { open(); }, {"one.safetensors", "a tensor b", kIndex}));
}

TEST_F(Shards, ThatHoldTheSameTensorTwiceAreRefused) {
  folder_.write("two.safetensors", tensors({"c", "a"}).file());
  EXPECT_TRUE(refuses([&] { open(); }, {"two.safetensors", "a tensor a"}));
}

TEST_F(Shards, LieBesideTheirIndex) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "",
                           "..\\\\x", "a\\u0000b"}) {
    index(std::string("{\"a\":\"") + name + "\"}");
    EXPECT_TRUE(refuses([&] { open(); }, {kIndex, "weight_map.a", "beside the index"})) << name;
  }
}

TEST_F(Shards, NeedAnIndexThatMapsNamesToFiles) {
  for (const char* map : {"[]", "1", "null", R"({"a":1})", R"({"a":["one.safetensors"]})"}) {
    index(map);
    EXPECT_TRUE(refuses([&] { open(); }, {kIndex, "weight_map"})) << map;
  }
  for (const char* text : {"", "{}", "[]", "{", R"({"weight_map":{"a":"x","a":"y"}})"}) {
    folder_.write(kIndex, text);
    EXPECT_TRUE(refuses([&] { open(); }, {kIndex})) << text;
  }
}

TEST(TensorFiles, MustExist) {
  const trial::Folder folder;
  EXPECT_TRUE(refuses([&] { TensorFiles::open(folder.path()); },
                      {folder.path().string(), "neither model.safetensors nor", kIndex}));
}

}  // namespace
