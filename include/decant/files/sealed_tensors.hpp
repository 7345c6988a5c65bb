// decant/files/sealed_tensors.hpp - named tensors in a file that knows whether it is what was
// written.
//
// A safetensors file whose last tensor, "checksum", is a hash of every byte before it, header
// included. Any reader of safetensors reads it; ours refuses one whose bytes have changed.
//
// Source      the safetensors format; XXH3 (64 bits) of the xxHash library
// Tested by   tests/files/sealed_tensors_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/files/detail/hash.hpp>
#include <decant/files/json.hpp>
#include <decant/files/little_endian.hpp>
#include <decant/files/new_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <xxhash.h>

namespace decant::inline v0::files {

namespace detail {

inline constexpr std::string_view kChecksum = "checksum";

inline const Dtype& dtype(std::string_view name) {
  return *std::ranges::find(kDtypes, name, &Dtype::name);
}

}  // namespace detail

// Writes such a file from front to back.
//
// Errors   std::system_error naming the path; the file that was there before is untouched
// Cost     one pass over the bytes; a buffer of the file's only
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
               std::span<const Entry> entries)
      : file_(path) {
    const std::string text = header_of(metadata, entries);
    write_number(text.size());
    write(std::as_bytes(std::span(text)));
  }

  // The bytes of the tensors, one after another in the order of the entries.
  void write(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    file_.write(bytes);
  }

  // Precondition: all bytes of all entries were written.
  void commit() {
    write_number(hash_.number());
    file_.commit();
  }

 private:
  // Spelled out: an object of the JSON library allocates in its destructor, which must not fail.
  static std::string header_of(const Metadata& metadata, std::span<const Entry> entries) {
    const auto quoted = [](std::string_view text) { return Json(text).dump(); };
    std::string text = "{\"__metadata__\": {";
    std::string_view between;
    for (const auto& [name, value] : metadata) {
      text += sentence(std::exchange(between, ", "), quoted(name), ": ", quoted(value));
    }
    text += "}";
    Index begin = 0;
    const auto add = [&](std::string_view name, std::string_view dtype,
                         std::span<const Index> shape) {
      const std::optional<Index> bytes = bytes_of(shape, detail::dtype(dtype));
      const std::array<Index, 2> offsets = {begin, checked_sum(begin, bytes.value())};
      text += sentence(", ", quoted(name), ": {\"dtype\": ", quoted(dtype),
                       ", \"shape\": ", shape_text(shape),
                       ", \"data_offsets\": ", shape_text(offsets), "}");
      begin = offsets[1];
    };
    for (const Entry& entry : entries) add(entry.name, entry.dtype, entry.shape);
    add(detail::kChecksum, "U64", std::array<Index, 1>{1});
    text += "}";
    text.resize(static_cast<std::size_t>(round_up(std::ssize(text), Index{8})),
                ' ');  // aligns data
    return text;
  }

  void write_number(std::uint64_t number) { write(std::as_bytes(std::span(&number, 1))); }

  detail::Hash hash_;
  NewFile file_;
};

// The tensors in `bytes`, which are unchanged since they were written.
//
// Errors   FormatError naming the file
// Cost     one pass over the bytes
inline Safetensors parse_sealed(std::span<const std::byte> bytes, std::string name) {
  Safetensors file = Safetensors::parse(bytes, std::move(name));
  const auto found = file.tensors().find(detail::kChecksum);
  expects<FormatError>(
      found != file.tensors().end() && found->second.dtype->name == "U64" &&
          found->second.data.size() == sizeof(std::uint64_t) &&
          found->second.data.data() + sizeof(std::uint64_t) == bytes.data() + bytes.size(),
      file.name(), ": does not end with a checksum");
  const auto sealed = bytes.first(bytes.size() - sizeof(std::uint64_t));
  expects<FormatError>(
      XXH3_64bits(sealed.data(), sealed.size()) == little_endian(found->second.data), file.name(),
      ": its checksum is another: the file has changed");
  return file;
}

}  // namespace decant::inline v0::files
