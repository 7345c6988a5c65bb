// decant/files/mapped_file.hpp - the bytes of one file, read-only, without copying them.
//
// A checkpoint is larger than what a program wants to read twice. Mapped, its pages arrive when
// they are touched and belong to the system's page cache, so the copy into packed weights is the
// only one made. Where there is no mmap the file is read into memory; callers see no difference.
//
// Tested by   tests/files/mapped_file_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/files/utf8.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
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

namespace decant::inline v0::files {

// A whole regular file. Move-only; a move keeps the address of the bytes.
//
// Errors   FormatError naming the path when it is absent, unreadable, empty or no regular file
// Cost     opening is O(1) where files can be mapped, one read elsewhere
// Threads  reads may overlap. A file that another process shortens meanwhile ends the process
//          with SIGBUS when the lost pages are touched, as with every mapping
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile() { release(); }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  [[noreturn]] void refuse(std::string_view what, int error) const {
    throw FormatError(
        sentence(printable_path(path_), ": ", what, ": ", std::generic_category().message(error)));
  }
  void release() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

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

inline MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
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
}

inline void MappedFile::release() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

#else

inline MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
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
}

inline void MappedFile::release() noexcept { delete[] data_; }

#endif

}  // namespace decant::inline v0::files
