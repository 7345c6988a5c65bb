// decant/files/detail/sealed_tensors.hpp - definitions of files/sealed_tensors.hpp.
//
// Tested by   tests/files/sealed_tensors_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/sealed_tensors.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace decant::inline DECANT_ABI::files {

namespace detail {

inline const Dtype& dtype(std::string_view name) {
  return *std::ranges::find(kDtypes, name, &Dtype::name);
}

}  // namespace detail

DECANT_IO_INLINE SealedWriter::SealedWriter(const std::filesystem::path& path,
                                            const Metadata& metadata,
                                            std::span<const Entry> entries)
    : file_(path) {
  const std::string text = header_of(metadata, entries);
  write_integer(text.size());
  write(std::as_bytes(std::span(text)));
}

DECANT_IO_INLINE void SealedWriter::write(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  file_.write(bytes);
}

DECANT_IO_INLINE void SealedWriter::commit() {
  write_integer(hash_.bits64());
  file_.commit();
}

DECANT_IO_INLINE void SealedWriter::write_integer(std::uint64_t integer) {
  write(std::as_bytes(std::span(&integer, 1)));
}

// Spelled out: an object of the JSON library allocates in its destructor, which must not fail.
DECANT_IO_INLINE std::string SealedWriter::header_of(const Metadata& metadata,
                                                     std::span<const Entry> entries) {
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
  add(kChecksum, "U64", std::array<Index, 1>{1});
  text += "}";
  constexpr Index kLength = sizeof(std::uint64_t);  // stands before it
  const Index aligned = round_up(std::ssize(text) + kLength, Index{64}) - kLength;
  text.resize(static_cast<std::size_t>(aligned), ' ');
  return text;
}

DECANT_IO_INLINE bool is_safetensors(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 9> front = {};  // a length, and the header's first character
  return file.read(front.data(), front.size()) && front.back() == '{' &&
         !std::string_view(front.data(), front.size()).starts_with("GGUF");
}

DECANT_IO_INLINE Safetensors parse_sealed(std::span<const std::byte> bytes, std::string name) {
  Safetensors file = Safetensors::parse(bytes, std::move(name));
  const auto found = file.tensors().find(kChecksum);
  expects<FormatError>(
      found != file.tensors().end() && found->second.dtype->name == "U64" &&
          found->second.data.size() == sizeof(std::uint64_t) &&
          found->second.data.data() + sizeof(std::uint64_t) == bytes.data() + bytes.size(),
      file.name(), ": does not end with a checksum");
  Hash hash;
  hash.add(bytes.first(bytes.size() - sizeof(std::uint64_t)));
  expects<FormatError>(hash.bits64() == little_endian(found->second.data), file.name(),
                       ": its checksum is another: the file has changed");
  return file;
}

}  // namespace decant::inline DECANT_ABI::files
