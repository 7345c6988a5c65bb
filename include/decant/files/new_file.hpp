// decant/files/new_file.hpp - a file that appears under its name when it is whole, or never.
//
// It grows beside its place under a name of its own and is renamed when it is done, so that a
// writer that is stopped at any moment leaves the old file or the new one.
//
// Tested by   tests/files/new_file_test.cpp, tests/examples/refusals.cmake
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/utf8.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#if __has_include(<unistd.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace decant::inline v0::files {

// Removed again where commit() never comes. Neither copied nor moved.
//
// Errors   std::system_error naming the path: it cannot be created, written or renamed; the file
//          that was there before is untouched
// Threads  one at a time
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path)
      : path_(std::move(path)), folder_(path_.has_parent_path() ? path_.parent_path() : ".") {
    std::error_code absent;
    if (exists(path_, absent) && !is_regular_file(path_, absent)) {
      fail(std::make_error_code(std::errc::not_supported), "is there, and is no regular file");
    }
    open();
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    file_.reset();
    std::error_code absent;
    if (!whole_) std::filesystem::remove(part_, absent);
  }

  void write(std::span<const std::byte> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(errno);
  }

  // Gives the file its name. Where the system can tell, bytes and name are on the disk then.
  void commit() {
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

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };

  [[noreturn]] void fail(std::error_code error, const char* what) const {
    throw std::system_error(error, sentence(printable_path(path_), ": ", what));
  }
  [[noreturn]] void fail(int error) const {
    fail(std::error_code(error, std::generic_category()), "cannot be written");
  }

  // A folder that cannot be synced is no failure: the file has its name.
  void sync_folder() const noexcept {
#if __has_include(<unistd.h>)
    const int descriptor = ::open(folder_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    static_cast<void>(::fsync(descriptor));
    ::close(descriptor);
#endif
  }

  // As <name>.part, or as <name>.part1 and so on where others write, or were stopped while they
  // did.
  void open() {
    constexpr int kMost = 100;
    for (int n = 0; n < kMost && file_ == nullptr; ++n) {
      part_ = path_;
      part_ += n == 0 ? std::string(".part") : ".part" + std::to_string(n);
      file_.reset(std::fopen(part_.string().c_str(), "wbx"));  // x: only where there is none
      if (file_ == nullptr && errno != EEXIST) fail(errno);
    }
    if (file_ == nullptr) {
      fail(std::make_error_code(std::errc::file_exists),
           "cannot be written: 100 unfinished files of that name, .part to .part99, are there");
    }
  }

  std::filesystem::path path_, folder_, part_;
  std::unique_ptr<std::FILE, Close> file_;
  bool whole_ = false;
};

}  // namespace decant::inline v0::files
