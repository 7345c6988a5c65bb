// tests/files/mapped_file_test.cpp - files that are there, and everything that is not a file.
#include <decant/files/mapped_file.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <type_traits>
#include <utility>

namespace {

using namespace decant;
using files::MappedFile;
using trial::refuses;

static_assert(!std::is_copy_constructible_v<MappedFile> && !std::is_copy_assignable_v<MappedFile>);
static_assert(std::is_nothrow_move_constructible_v<MappedFile>);

TEST(MappedFile, ShowsEveryByte) {
  const trial::Folder folder;
  std::string content;
  for (int i = 0; i < 10000; ++i) content.push_back(static_cast<char>(i * 7));
  const MappedFile file(folder.write("bytes", content));
  EXPECT_EQ(file.text(), content);
  EXPECT_EQ(file.bytes().size(), content.size());
  EXPECT_EQ(file.path(), folder.path() / "bytes");
}

TEST(MappedFile, StaysAtItsAddressWhenMoved) {
  const trial::Folder folder;
  MappedFile one(folder.write("one", "first"));
  const std::byte* address = one.bytes().data();
  MappedFile moved(std::move(one));
  EXPECT_EQ(moved.bytes().data(), address);
  MappedFile other(folder.write("other", "second"));
  other = std::move(moved);
  EXPECT_EQ(other.bytes().data(), address);
  EXPECT_EQ(other.text(), "first");
}

TEST(MappedFile, OutlivesTheNameOfItsFile) {
  const trial::Folder folder;
  const MappedFile file(folder.write("gone", "still here"));
  std::filesystem::remove(folder.path() / "gone");
  EXPECT_EQ(file.text(), "still here");
}

TEST(MappedFile, RefusesAPathThatIsNotThere) {
  const trial::Folder folder;
  EXPECT_TRUE(refuses([&] { MappedFile(folder.path() / "absent"); }, {"absent", "No such file"}));
}

TEST(MappedFile, RefusesADirectory) {
  const trial::Folder folder;
  EXPECT_TRUE(
      refuses([&] { MappedFile(folder.path()); }, {folder.path().string(), "not a regular file"}));
}

TEST(MappedFile, RefusesAnEmptyFile) {
  const trial::Folder folder;
  EXPECT_TRUE(refuses([&] { MappedFile(folder.write("nothing", "")); }, {"nothing", "is empty"}));
}

TEST(MappedFile, RefusesAGitLfsPointer) {
  const trial::Folder folder;
  const auto path = folder.write("model.safetensors",
                                 "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_TRUE(refuses([&] { MappedFile{path}; }, {"model.safetensors: is a Git LFS pointer"}));
}

TEST(MappedFile, RefusesANamedPipeWithoutWaitingForIt) {
  const trial::Folder folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(refuses([&] { MappedFile{pipe}; }, {"pipe", "not a regular file"}));
}

}  // namespace
