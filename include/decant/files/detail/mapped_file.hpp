// decant/files/detail/mapped_file.hpp - definitions of files/mapped_file.hpp, by POSIX mmap where
// it exists.
//
// Tested by   tests/files/mapped_file_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/utf8.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#if __has_include(<sys/mman.h>) && __has_include(<unistd.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#include <fstream>
#include <memory>
#endif

namespace decant::inline DECANT_ABI::files {

DECANT_IO_INLINE void MappedFile::refuse(std::string_view what, int error) const {
  throw FormatError(
      sentence(printable_path(path_), ": ", what, ": ", std::generic_category().message(error)));
}

DECANT_IO_INLINE void MappedFile::refuse_pointer() {
  if (!text().starts_with("version https://git-lfs.github.com/spec/")) return;
  release();
  throw FormatError(sentence(printable_path(path_),
                             ": is a Git LFS pointer, not the file; `git lfs pull` fetches it"));
}

#if __has_include(<sys/mman.h>) && __has_include(<unistd.h>)

namespace detail {

// Closes a file descriptor at the end of its scope; a mapping outlives it.
struct Descriptor {
  int number;

  explicit Descriptor(int opened) noexcept : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace detail

DECANT_IO_INLINE MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK a named pipe would wait here for a writer.
  const detail::Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) refuse("cannot be opened", errno);
  struct stat status = {};
  if (::fstat(file.number, &status) != 0) refuse("cannot be examined", errno);
  expects<FormatError>(S_ISREG(status.st_mode), printable_path(path_), ": is not a regular file");
  expects<FormatError>(status.st_size > 0, printable_path(path_), ": is empty");
  const auto size = static_cast<std::uintmax_t>(status.st_size);
  expects<FormatError>(size <= std::numeric_limits<std::size_t>::max(), printable_path(path_), ": ",
                       size, " bytes do not fit in the address space");
  size_ = static_cast<std::size_t>(size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse("cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(address);
  refuse_pointer();
}

DECANT_IO_INLINE void MappedFile::release() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

#else

DECANT_IO_INLINE MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  if (!file) refuse("cannot be opened", errno);
  expects<FormatError>(std::filesystem::is_regular_file(path_, ignored), printable_path(path_),
                       ": is not a regular file");
  expects<FormatError>(file.tellg() > 0, printable_path(path_), ": is empty");
  size_ = static_cast<std::size_t>(file.tellg());
  auto bytes = std::make_unique<std::byte[]>(size_);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.get()), static_cast<std::streamsize>(size_));
  if (!file) refuse("cannot be read", errno);
  data_ = bytes.release();
  refuse_pointer();
}

DECANT_IO_INLINE void MappedFile::release() noexcept { delete[] data_; }

#endif

}  // namespace decant::inline DECANT_ABI::files
