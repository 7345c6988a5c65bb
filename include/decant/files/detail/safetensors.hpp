// decant/files/detail/safetensors.hpp - definitions of files/safetensors.hpp.
//
// Tested by   tests/files/safetensors_test.cpp, tests/fuzz/safetensors_target.hpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

namespace detail {

inline const Dtype& dtype_of(const JsonObject& tensor) {
  const std::string name = tensor.text("dtype");
  const auto found = std::ranges::find(kDtypes, std::string_view(name), &Dtype::name);
  expects<FormatError>(found != kDtypes.end(), tensor.place("dtype"), " is the unknown \"",
                       printable(name), "\"");
  return *found;
}

// A JSON array of non-negative integers.
inline std::vector<Index> extents_of(const JsonObject& tensor, std::string_view key,
                                     std::size_t most) {
  const Json& value = tensor.at(key);
  expects<FormatError>(value.is_array() && value.size() <= most, tensor.place(key),
                       " is not an array of at most ", most, " integers");
  std::vector<Index> extents;
  for (const Json& item : value) {
    extents.push_back(JsonObject::as_integer(item, tensor.place(key)));
    expects<FormatError>(extents.back() >= 0, tensor.place(key), " has the negative number ",
                         extents.back());
  }
  return extents;
}

}  // namespace detail

// Reads the header of a file, of which `data` is what comes after it.
class Safetensors::Reader {
 public:
  Reader(Safetensors& file, std::span<const std::byte> data) : file_(file), data_(data) {}

  void read(const std::string& key, const Json& value) const {
    key == "__metadata__" ? read_metadata(value) : read_tensor(key, value);
  }

 private:
  void read_metadata(const Json& value) const {
    const JsonObject object(value, file_.name_, "__metadata__");
    for (const auto& [key, text] : value.items()) {
      file_.metadata_.emplace(key, JsonObject::as_text(text, object.place(key)));
    }
  }

  void read_tensor(const std::string& name, const Json& value) const;

  Safetensors& file_;
  std::span<const std::byte> data_;
};

DECANT_IO_INLINE Safetensors Safetensors::open(const std::filesystem::path& path) {
  MappedFile file(path);
  Safetensors result = parse(file.bytes(), printable_path(path));
  result.file_.emplace(std::move(file));
  return result;
}

DECANT_IO_INLINE Safetensors Safetensors::parse(std::span<const std::byte> bytes,
                                                std::string name) {
  Safetensors result(std::move(name));
  expects<FormatError>(bytes.size() >= 8, result.name_, ": ", bytes.size(),
                       " bytes are too few for a safetensors header");
  const std::uint64_t length = little_endian(bytes.first<8>());
  expects<FormatError>(length <= kMaxHeader, result.name_, ": a header of ", length,
                       " bytes, beyond the limit of ", kMaxHeader,
                       ": no safetensors file, or a damaged one");
  expects<FormatError>(length <= bytes.size() - 8, result.name_, ": a header of ", length,
                       " bytes in a file of ", bytes.size());
  const auto header = bytes.subspan(8, static_cast<std::size_t>(length));
  const auto data = bytes.subspan(8 + header.size());
  const Json json = parse_json({reinterpret_cast<const char*>(header.data()), header.size()},
                               result.name_ + ": header");
  expects<FormatError>(json.is_object(), result.name_, ": the header is ", json.type_name(),
                       ", not an object");
  const Reader reader(result, data);
  for (const auto& [key, value] : json.items()) reader.read(key, value);
  result.check_tiling(data);
  return result;
}

DECANT_IO_INLINE void Safetensors::Reader::read_tensor(const std::string& name,
                                                       const Json& value) const {
  const JsonObject object(value, file_.name_, name);
  Tensor tensor{.dtype = &detail::dtype_of(object),
                .shape = detail::extents_of(object, "shape", kMaxRank),
                .data = {}};
  const std::vector<Index> offsets = detail::extents_of(object, "data_offsets", 2);
  expects<FormatError>(
      offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= std::ssize(data_),
      object.place("data_offsets"), " ", shape_text(offsets), " are no range of the ", data_.size(),
      " bytes of data");
  const Index size = offsets[1] - offsets[0];
  const std::optional<Index> wanted = bytes_of(tensor.shape, *tensor.dtype);
  expects<FormatError>(wanted == size, object.place("data_offsets"), " ", shape_text(offsets),
                       " hold ", size, " bytes, which is not what ", tensor.dtype->name, " ",
                       shape_text(tensor.shape), " takes");
  tensor.data = data_.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(size));
  file_.tensors_.emplace(name, std::move(tensor));
}

// Sorted by where they lie, each tensor must begin where the one before it ended.
DECANT_IO_INLINE void Safetensors::check_tiling(std::span<const std::byte> data) const {
  std::vector<std::pair<std::span<const std::byte>, std::string_view>> parts;
  for (const auto& [name, tensor] : tensors_) parts.emplace_back(tensor.data, name);
  std::ranges::sort(
      parts, {}, [](const auto& part) { return std::pair(part.first.data(), part.first.size()); });
  const std::byte* end = data.data();
  for (const auto& [bytes, name] : parts) {
    expects<FormatError>(bytes.data() >= end, name_, ": ", printable(name),
                         " overlaps the tensor before it by ", end - bytes.data(), " bytes");
    expects<FormatError>(bytes.data() == end, name_, ": a hole of ", bytes.data() - end,
                         " bytes before ", printable(name));
    end = bytes.data() + bytes.size();
  }
  const auto used = static_cast<std::size_t>(end - data.data());
  expects<FormatError>(used == data.size(), name_, ": ", data.size() - used,
                       " bytes of data belong to no tensor");
}

}  // namespace decant::inline DECANT_ABI::files
