// decant/files/detail/gguf.hpp - definitions of the class Gguf of files/gguf.hpp.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md); block sizes: ggml
// Tested by   tests/files/gguf_test.cpp, tests/fuzz/gguf_target.hpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/detail/gguf_cursor.hpp>
#include <decant/files/detail/gguf_metadata.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

namespace detail {

// An element format, and its number in the file.
struct GgufDtype {
  std::uint64_t number;
  Dtype dtype;
};

inline constexpr std::array kGgufDtypes = {
    GgufDtype{0, {"F32", 32, codec::Type::f32}},
    GgufDtype{1, {"F16", 16, codec::Type::f16}},
    GgufDtype{2, {"Q4_0", 18 * 8, codec::Type::q4_0, 32}},
    GgufDtype{3, {"Q4_1", 20 * 8, std::nullopt, 32}},
    GgufDtype{6, {"Q5_0", 22 * 8, std::nullopt, 32}},
    GgufDtype{7, {"Q5_1", 24 * 8, std::nullopt, 32}},
    GgufDtype{8, {"Q8_0", 34 * 8, codec::Type::q8_0, 32}},
    GgufDtype{9, {"Q8_1", 36 * 8, std::nullopt, 32}},
    GgufDtype{10, {"Q2_K", 84 * 8, std::nullopt, 256}},
    GgufDtype{11, {"Q3_K", 110 * 8, std::nullopt, 256}},
    GgufDtype{12, {"Q4_K", 144 * 8, std::nullopt, 256}},
    GgufDtype{13, {"Q5_K", 176 * 8, std::nullopt, 256}},
    GgufDtype{14, {"Q6_K", 210 * 8, std::nullopt, 256}},
    GgufDtype{15, {"Q8_K", 292 * 8, std::nullopt, 256}},
    GgufDtype{16, {"IQ2_XXS", 66 * 8, std::nullopt, 256}},
    GgufDtype{17, {"IQ2_XS", 74 * 8, std::nullopt, 256}},
    GgufDtype{18, {"IQ3_XXS", 98 * 8, std::nullopt, 256}},
    GgufDtype{19, {"IQ1_S", 50 * 8, std::nullopt, 256}},
    GgufDtype{20, {"IQ4_NL", 18 * 8, std::nullopt, 32}},
    GgufDtype{21, {"IQ3_S", 110 * 8, std::nullopt, 256}},
    GgufDtype{22, {"IQ2_S", 82 * 8, std::nullopt, 256}},
    GgufDtype{23, {"IQ4_XS", 136 * 8, std::nullopt, 256}},
    GgufDtype{24, {"I8", 8}},
    GgufDtype{25, {"I16", 16}},
    GgufDtype{26, {"I32", 32}},
    GgufDtype{27, {"I64", 64}},
    GgufDtype{28, {"F64", 64}},
    GgufDtype{29, {"IQ1_M", 56 * 8, std::nullopt, 256}},
    GgufDtype{30, {"BF16", 16, codec::Type::bf16}},
    GgufDtype{34, {"TQ1_0", 54 * 8, std::nullopt, 256}},
    GgufDtype{35, {"TQ2_0", 66 * 8, std::nullopt, 256}},
    GgufDtype{39, {"MXFP4", 17 * 8, std::nullopt, 32}},
};

// A tensor without its data, which begins `offset` bytes behind the beginning of all data.
struct GgufTensorInfo {
  std::string name;
  Tensor tensor;
  std::uint64_t offset;
};

inline std::vector<Index> gguf_shape(GgufCursor& cursor) {
  const std::uint64_t rank = cursor.number(4);
  expects<FormatError>(rank <= Gguf::kMaxRank, cursor.what(), " has ", rank, " extents, not up to ",
                       Gguf::kMaxRank);
  std::vector<Index> shape(static_cast<std::size_t>(rank));
  for (Index& extent : shape) {
    const std::uint64_t number = cursor.number(8);
    expects<FormatError>(number > 0 && number <= std::uint64_t{std::numeric_limits<Index>::max()},
                         cursor.what(), " has the extent ", number, ", not in [1, 2^63)");
    extent = static_cast<Index>(number);
  }
  std::ranges::reverse(shape);
  return shape;
}

inline const Dtype* gguf_dtype(GgufCursor& cursor) {
  const std::uint64_t number = cursor.number(4);
  const auto found = std::ranges::find(kGgufDtypes, number, &GgufDtype::number);
  expects<FormatError>(found != kGgufDtypes.end(), cursor.what(), " has the element format ",
                       number, ", which is unknown");
  return &found->dtype;
}

inline GgufTensorInfo gguf_tensor_info(GgufCursor& cursor, Index at) {
  cursor.enter(sentence("tensor ", at));
  GgufTensorInfo info{std::string(cursor.text()), {}, 0};
  cursor.enter(sentence("tensor ", printable(info.name)));
  info.tensor.shape = gguf_shape(cursor);
  info.tensor.dtype = gguf_dtype(cursor);
  info.offset = cursor.number(8);
  const Index row = info.tensor.shape.empty() ? 1 : info.tensor.shape.back();
  expects<FormatError>(row % info.tensor.dtype->block == 0, cursor.what(), " has rows of ", row,
                       " elements, not divisible into blocks of ", info.tensor.dtype->name,
                       ", which are ", info.tensor.dtype->block);
  return info;
}

inline std::uint64_t gguf_alignment(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  const Index alignment = metadata.integer_or(kKey, 32);
  expects<FormatError>(alignment > 0 && alignment <= (Index{1} << 32) &&
                           std::has_single_bit(static_cast<std::uint64_t>(alignment)),
                       metadata.place(kKey), " is ", alignment, ", not a power of two up to 2^32");
  return static_cast<std::uint64_t>(alignment);
}

}  // namespace detail

DECANT_IO_INLINE Gguf Gguf::open(const std::filesystem::path& path) {
  MappedFile file(path);
  Gguf result = parse(file.bytes(), printable_path(path));
  result.file_.emplace(std::move(file));
  return result;
}

DECANT_IO_INLINE TensorTable Gguf::table() const {
  TensorTable table(name());
  for (const auto& [name, tensor] : tensors_) table.add(name, {&tensor, this->name()});
  return table;
}

DECANT_IO_INLINE std::vector<std::byte> Gguf::without_tensors() const {
  std::vector<std::byte> bytes(front_.begin(), front_.end());
  std::fill_n(bytes.begin() + 8, 8, std::byte{0});  // their count
  return bytes;
}

DECANT_IO_INLINE bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ||
         (path.extension() == ".gguf" && !std::filesystem::is_directory(path, ignored));
}

DECANT_IO_INLINE Gguf Gguf::parse(std::span<const std::byte> bytes, std::string name) {
  constexpr std::size_t kSmallestEntry = 8 + 4 + 1;
  constexpr std::size_t kSmallestTensor = 8 + 4 + 4 + 8;
  detail::GgufCursor cursor(bytes, name);
  const bool magic = bytes.size() >= 4 && cursor.number(4) == 0x46554747;
  expects<FormatError>(magic, name, ": does not begin with GGUF");
  const std::uint64_t version = cursor.number(4);
  expects<FormatError>(version == 2 || version == 3, name, ": version ", version,
                       " of GGUF, not 2 or 3");
  const std::uint64_t tensors = cursor.number(8);
  const Index entries = cursor.count("metadata entries", kSmallestEntry);
  Gguf result(name);
  result.metadata_.read(cursor, entries);
  result.front_ = bytes.first(cursor.at());
  expects<FormatError>(tensors <= cursor.left() / kSmallestTensor, name, ": ", tensors,
                       " tensors do not fit in the ", cursor.left(), " bytes behind byte ",
                       cursor.at());
  result.read_tensors(cursor, static_cast<Index>(tensors));
  return result;
}

DECANT_IO_INLINE void Gguf::read_tensors(detail::GgufCursor& cursor, Index count) {
  const std::uint64_t alignment = detail::gguf_alignment(metadata_);
  std::vector<detail::GgufTensorInfo> infos;
  for (Index at = 0; at < count; ++at) infos.push_back(detail::gguf_tensor_info(cursor, at));
  if (infos.empty()) return;
  cursor.enter("the data");
  cursor.take((alignment - cursor.at() % alignment) % alignment);
  const auto data = cursor.take(cursor.left());
  for (auto& [name, tensor, offset] : infos) {
    cursor.enter(sentence("tensor ", printable(name)));
    const std::optional<Index> size = bytes_of(tensor.shape, *tensor.dtype);
    expects<FormatError>(size.has_value(), cursor.what(), " has the shape ",
                         shape_text(tensor.shape), ", whose bytes cannot be counted in 63 bits");
    expects<FormatError>(offset % alignment == 0, cursor.what(), " begins at offset ", offset,
                         ", not a multiple of ", alignment);
    const auto bytes = static_cast<std::uint64_t>(*size);
    expects<FormatError>(offset <= data.size() && bytes <= data.size() - offset, cursor.what(),
                         " has ", bytes, " bytes at offset ", offset, " of ", data.size(),
                         " bytes of data");
    tensor.data = data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    expects<FormatError>(tensors_.emplace(std::move(name), std::move(tensor)).second, cursor.what(),
                         " is given twice");
  }
  check_overlap();
}

// Sorted by where they lie, each tensor must begin behind the one before it.
DECANT_IO_INLINE void Gguf::check_overlap() const {
  std::vector<std::pair<std::span<const std::byte>, std::string_view>> parts;
  for (const auto& [name, tensor] : tensors_) parts.emplace_back(tensor.data, name);
  std::ranges::sort(parts, {}, [](const auto& part) { return part.first.data(); });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::byte* end = parts[i - 1].first.data() + parts[i - 1].first.size();
    expects<FormatError>(parts[i].first.data() >= end, name(), ": tensor ",
                         printable(parts[i].second), " overlaps ", printable(parts[i - 1].second),
                         " by ", end - parts[i].first.data(), " bytes");
  }
}

}  // namespace decant::inline DECANT_ABI::files
