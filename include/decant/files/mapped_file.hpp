// decant/files/mapped_file.hpp - the bytes of one file, read-only, without copying them.
//
// A checkpoint is larger than what a program wants to read twice. Mapped, its pages arrive when
// they are touched and belong to the system's page cache, so the copy into packed weights is the
// only one made. Where there is no mmap the file is read into memory; callers see no difference.
//
// Tested by   tests/files/mapped_file_test.cpp
#pragma once

#include <decant/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace decant::inline DECANT_ABI::files {

// The unsigned integer in at most eight bytes, the least significant one first.
constexpr std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

// Bytes as the characters of a text.
inline std::string_view characters(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A whole regular file. Move-only; the bytes stay where they are in a move.
//
// Errors   FormatError naming the path when it is absent, unreadable, empty or no regular file, or
//          a Git LFS pointer, which a clone has in the place of a large file
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
  std::string_view text() const noexcept { return characters(bytes()); }

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  [[noreturn]] void refuse(std::string_view what, int error) const;
  void refuse_pointer();
  void release() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/mapped_file.hpp>
#endif
