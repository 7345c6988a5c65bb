// decant/files/sealed_tensors.hpp - named tensors in a file that ends with its own checksum.
//
// A safetensors file whose last tensor, "checksum", is a hash of every byte before it, header
// included. Any reader of safetensors reads it; ours refuses one whose bytes have changed.
//
// Source      the safetensors format; XXH3 (64 bits) of the xxHash library
// Tested by   tests/files/sealed_tensors_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/files/hash.hpp>
#include <decant/files/new_file.hpp>
#include <decant/files/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::files {

inline constexpr std::string_view kChecksum = "checksum";

// Writes such a file from front to back. Data begins at a multiple of 64 bytes.
//
// Errors   std::system_error naming the path; the file that was there before is untouched
// Cost     one pass over the bytes; the file's buffer is the only one
class SealedWriter {
 public:
  struct Entry {
    std::string name;
    std::string_view dtype;  // one of kDtypes
    std::vector<Index> shape;
  };
  using Metadata = std::map<std::string, std::string>;

  // Writes the header. Preconditions: names differ and are not "checksum"; texts are UTF-8.
  SealedWriter(const std::filesystem::path& path, const Metadata& metadata,
               std::span<const Entry> entries);

  // The bytes of the tensors, one after another in the order of the entries.
  void write(std::span<const std::byte> bytes);

  // Precondition: all bytes of all entries were written.
  void commit();

 private:
  static std::string header_of(const Metadata& metadata, std::span<const Entry> entries);
  void write_integer(std::uint64_t integer);

  Hash hash_;
  NewFile file_;
};

// The tensors in `bytes`, whose checksum was verified.
//
// Errors   FormatError naming the file
// Cost     one pass over the bytes
Safetensors parse_sealed(std::span<const std::byte> bytes, std::string name);

// Whether `path` is a file that begins as safetensors files do, and no GGUF file.
bool is_safetensors(const std::filesystem::path& path);

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/sealed_tensors.hpp>
#endif
