// decant/files/detail/new_file.hpp - definitions of files/new_file.hpp, with POSIX fsync where it
// exists.
//
// Tested by   tests/files/new_file_test.cpp, tests/examples/refusals.cmake
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/new_file.hpp>
#include <decant/files/utf8.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#if __has_include(<unistd.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace decant::inline DECANT_ABI::files {

DECANT_IO_INLINE NewFile::NewFile(std::filesystem::path path)
    : path_(std::move(path)), folder_(path_.has_parent_path() ? path_.parent_path() : ".") {
  std::error_code absent;
  if (exists(path_, absent) && !is_regular_file(path_, absent)) {
    fail(std::make_error_code(std::errc::not_supported), "is there, and is no regular file");
  }
  open();
}

DECANT_IO_INLINE NewFile::~NewFile() {
  file_.reset();
  std::error_code absent;
  if (!whole_) std::filesystem::remove(part_, absent);
}

DECANT_IO_INLINE void NewFile::write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(errno);
}

DECANT_IO_INLINE void NewFile::commit() {
  if (std::fflush(file_.get()) != 0) fail(errno);
#if __has_include(<unistd.h>)
  if (::fsync(::fileno(file_.get())) != 0) fail(errno);
#endif
  if (std::fclose(file_.release()) != 0) fail(errno);
  std::error_code error;
  std::filesystem::rename(part_, path_, error);
  if (error) fail(error, "cannot be written");
  whole_ = true;
  sync_folder();
}

DECANT_IO_INLINE void NewFile::fail(std::error_code error, const char* what) const {
  throw std::system_error(error, sentence(printable_path(path_), ": ", what));
}

DECANT_IO_INLINE void NewFile::fail(int error) const {
  fail(std::error_code(error, std::generic_category()), "cannot be written");
}

// A folder that cannot be synced is no failure: the file has its name.
DECANT_IO_INLINE void NewFile::sync_folder() const noexcept {
#if __has_include(<unistd.h>)
  const int descriptor = ::open(folder_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
#endif
}

// As <name>.part, or as <name>.part1 and so on if other writers use that name or left it behind.
DECANT_IO_INLINE void NewFile::open() {
  constexpr int kMost = 100;
  for (int n = 0; n < kMost && file_ == nullptr; ++n) {
    part_ = path_;
    part_ += n == 0 ? std::string(".part") : ".part" + std::to_string(n);
    file_.reset(std::fopen(part_.string().c_str(), "wbx"));  // x: only if there is none
    if (file_ == nullptr && errno != EEXIST) fail(errno);
  }
  if (file_ == nullptr) {
    fail(std::make_error_code(std::errc::file_exists),
         "cannot be written: 100 unfinished files of that name, .part to .part99, are there");
  }
}

}  // namespace decant::inline DECANT_ABI::files
