// decant/files/new_file.hpp - a file that appears under its name when it is complete, or never.
//
// It is written under a temporary name in the same folder and renamed when it is complete. If the
// writer is stopped at any moment, the old file or the new one is there.
//
// Tested by   tests/files/new_file_test.cpp, tests/examples/refusals.cmake
#pragma once

#include <decant/core/config.hpp>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

namespace decant::inline DECANT_ABI::files {

// Removed again unless commit() succeeds. Neither copied nor moved.
//
// Errors   std::system_error naming the path: it cannot be created, written or renamed; the file
//          that was there before is untouched
// Threads  one at a time
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);

  // Gives the file its name. Bytes and name are on the disk then, if the system can tell.
  void commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };

  [[noreturn]] void fail(std::error_code error, const char* what) const;
  [[noreturn]] void fail(int error) const;
  void sync_folder() const noexcept;
  void open();

  std::filesystem::path path_, folder_, part_;
  std::unique_ptr<std::FILE, Close> file_;
  bool whole_ = false;
};

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/new_file.hpp>
#endif
