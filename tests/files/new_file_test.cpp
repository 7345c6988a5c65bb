// tests/files/new_file_test.cpp - a file is there whole or not at all, and what was there stays
// until then: also when the writer is killed, and when the disk is full.
#include <decant/files/new_file.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>

#if __has_include(<sys/wait.h>)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

using namespace decant;
using files::NewFile;

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(NewFile, AppearsWhenItIsCommitted) {
  const trial::Folder folder;
  const auto path = folder.write("name", "old");
  {
    NewFile file(path);
    file.write(trial::bytes_of("new "));
    file.write(trial::bytes_of("text"));
    EXPECT_EQ(trial::read_file(path), "old");
    file.commit();
    EXPECT_EQ(trial::read_file(path), "new text");
  }
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(NewFile, LeavesNothingWhereItIsNotCommitted) {
  const trial::Folder folder;
  const auto path = folder.write("name", "old");
  NewFile(path).write(trial::bytes_of("new"));
  EXPECT_EQ(trial::read_file(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(NewFile, GrowsBesideWhatOthersLeft) {
  const trial::Folder folder;
  folder.write("name.part", "mine");
  NewFile one(folder.path() / "name");
  NewFile other(folder.path() / "name");
  one.write(trial::bytes_of("one"));
  other.write(trial::bytes_of("other"));
  one.commit();
  other.commit();
  EXPECT_EQ(trial::read_file(folder.path() / "name"), "other");
  EXPECT_EQ(trial::read_file(folder.path() / "name.part"), "mine");
  EXPECT_EQ(files_in(folder.path()), 2u);
}

TEST(NewFile, SaysWhatCannotBeWritten) {
  const trial::Folder folder;
  EXPECT_THROW(NewFile(folder.path()), std::system_error);
  EXPECT_THROW(NewFile("/dev/null"), std::system_error);
  try {
    NewFile(folder.path() / "no" / "such");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
    EXPECT_NE(std::string(error.what()).find("such: cannot be written"), std::string::npos);
  }
}

#if __has_include(<sys/wait.h>)

// Runs `work` in a process of its own; gives how it ended.
template <class F>
int status_of(F&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// Killed after ever more steps of its writing, the writer leaves the old file, until it is done.
TEST(NewFile, IsOldOrNewWhereItsWriterIsKilled) {
  const trial::Folder folder;
  const std::string whole(5 * 10'000, 'x');
  for (int steps = 0; steps <= 7; ++steps) {
    const auto path = folder.write("name", "old");
    const int status = status_of([&] {
      int step = 0;
      const auto live = [&] {
        if (step++ == steps) ::raise(SIGKILL);
      };
      live();
      NewFile file(path);
      for (int part = 0; part < 5; ++part) {
        live();
        file.write(trial::bytes_of(std::string_view(whole).substr(0, 10'000)));
      }
      live();
      file.commit();
      live();
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(trial::read_file(path), steps < 7 ? "old" : whole) << "killed at step " << steps;
  }
}

TEST(NewFile, LeavesTheOldOneWhereThereIsNoRoom) {
  const trial::Folder folder;
  const auto path = folder.write("name", "old");
  const int status = status_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};  // bytes of any one file
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
    try {
      NewFile file(path);
      file.write(trial::bytes_of(std::string(300'000, 'x')));
      file.commit();
      ::_exit(1);
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::file_too_large) ::_exit(2);
    }
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(trial::read_file(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

#endif

}  // namespace
