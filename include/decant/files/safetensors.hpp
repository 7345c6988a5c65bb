// decant/files/safetensors.hpp - named tensors in one file, checked before any of them is used.
//
//   8 bytes      length of the header, little-endian
//   header       a JSON object: name -> {dtype, shape, data_offsets: [begin, end)}; the offsets
//                count from the end of the header. "__metadata__" maps strings to strings
//   data         little-endian, row-major
//
// A file is accepted when its tensors tile the data exactly: no hole, no overlap, nothing behind
// the last one, and each as long as its shape and dtype say. Order in the header is free, and data
// need not be aligned. A zero extent makes an empty tensor, whatever the other extents are.
//
// Source      the format's description in the safetensors repository (README, "Format")
// Tested by   tests/files/safetensors_test.cpp, tests/fuzz/safetensors_target.hpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/little_endian.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::files {

inline constexpr std::array kDtypes = {
    Dtype{"F32", 32, codec::Type::f32},
    Dtype{"BF16", 16, codec::Type::bf16},
    Dtype{"F16", 16, codec::Type::f16},
    Dtype{"F64", 64},
    Dtype{"I64", 64},
    Dtype{"U64", 64},
    Dtype{"C64", 64},
    Dtype{"I32", 32},
    Dtype{"U32", 32},
    Dtype{"I16", 16},
    Dtype{"U16", 16},
    Dtype{"I8", 8},
    Dtype{"U8", 8},
    Dtype{"BOOL", 8},
    Dtype{"F8_E4M3", 8},
    Dtype{"F8_E5M2", 8},
    Dtype{"F8_E8M0", 8},
    Dtype{"F6_E2M3", 6},
    Dtype{"F6_E3M2", 6},
    Dtype{"F4", 4},
};

// The tensors of one file, by name. Spans point into the file, which a Safetensors from open()
// owns and one from parse() borrows. Move-only.
//
// Errors   FormatError naming the file, and the tensor where one is at fault
// Cost     O(header); the data is not touched
// Threads  const access may overlap
class Safetensors {
 public:
  static constexpr std::uint64_t kMaxHeader = 100'000'000;  // bytes, the format's own limit
  static constexpr std::size_t kMaxRank = 32;

  static Safetensors open(const std::filesystem::path& path) {
    MappedFile file(path);
    Safetensors result = parse(file.bytes(), printable_path(path));
    result.file_.emplace(std::move(file));
    return result;
  }
  static Safetensors parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const noexcept { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const noexcept {
    return metadata_;
  }

 private:
  explicit Safetensors(std::string name) : name_(std::move(name)) {}

  void read_metadata(const Json& value);
  void read_tensor(const std::string& name, const Json& value, std::span<const std::byte> data);
  void check_tiling(std::span<const std::byte> data) const;

  std::string name_;
  std::optional<MappedFile> file_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

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

inline Safetensors Safetensors::parse(std::span<const std::byte> bytes, std::string name) {
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
  for (const auto& [key, value] : json.items()) {
    key == "__metadata__" ? result.read_metadata(value) : result.read_tensor(key, value, data);
  }
  result.check_tiling(data);
  return result;
}

inline void Safetensors::read_metadata(const Json& value) {
  const JsonObject object(value, name_, "__metadata__");
  for (const auto& [key, text] : value.items()) {
    metadata_.emplace(key, JsonObject::as_text(text, object.place(key)));
  }
}

inline void Safetensors::read_tensor(const std::string& name, const Json& value,
                                     std::span<const std::byte> data) {
  const JsonObject object(value, name_, name);
  Tensor tensor{.dtype = &detail::dtype_of(object),
                .shape = detail::extents_of(object, "shape", kMaxRank),
                .data = {}};
  const std::vector<Index> offsets = detail::extents_of(object, "data_offsets", 2);
  expects<FormatError>(
      offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= std::ssize(data),
      object.place("data_offsets"), " ", shape_text(offsets), " are no range of the ", data.size(),
      " bytes of data");
  const Index size = offsets[1] - offsets[0];
  const std::optional<Index> wanted = bytes_of(tensor.shape, *tensor.dtype);
  expects<FormatError>(wanted == size, object.place("data_offsets"), " ", shape_text(offsets),
                       " hold ", size, " bytes, which is not what ", tensor.dtype->name, " ",
                       shape_text(tensor.shape), " takes");
  tensor.data = data.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(size));
  tensors_.emplace(name, std::move(tensor));
}

// Sorted by where they lie, each tensor must begin where the one before it ended.
inline void Safetensors::check_tiling(std::span<const std::byte> data) const {
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

}  // namespace decant::inline v0::files
