// decant/files/detail/gguf_metadata.hpp - definitions of the class GgufMetadata of files/gguf.hpp.
//
// Tested by   tests/files/gguf_metadata_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/detail/gguf_cursor.hpp>
#include <decant/files/gguf.hpp>
#include <decant/files/utf8.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::files {

DECANT_IO_INLINE void GgufMetadata::read(detail::GgufCursor& cursor, Index count) {
  for (Index i = 0; i < count; ++i) {
    cursor.enter(sentence("metadata key ", i));
    const std::string_view key = cursor.text();
    cursor.enter(key);
    const GgufValue value = cursor.value(cursor.type());
    expects<FormatError>(values_.emplace(key, value).second, cursor.what(), " is given twice");
  }
}

DECANT_IO_INLINE std::string GgufMetadata::place(std::string_view key) const {
  return sentence(file_, ": ", printable(key));
}

DECANT_IO_INLINE const GgufValue& GgufMetadata::at(std::string_view key) const {
  const auto found = values_.find(key);
  expects<FormatError>(found != values_.end(), place(key), " is absent");
  return found->second;
}

DECANT_IO_INLINE Index GgufMetadata::integer(std::string_view key) const {
  const GgufValue& value = scalar(key);
  return integer_of(value.type, value.bytes, key);
}

DECANT_IO_INLINE double GgufMetadata::number(std::string_view key) const {
  const GgufValue& value = scalar(key);
  const double number = number_of(value.type, value.bytes, key);
  expects<FormatError>(std::isfinite(number), place(key), " is not a finite number");
  return number;
}

DECANT_IO_INLINE bool GgufMetadata::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  expects_type(key, !at(key).array && at(key).type == GgufType::flag, "a bool");
  return at(key).bytes[0] != std::byte{0};
}

DECANT_IO_INLINE std::string_view GgufMetadata::text(std::string_view key) const {
  expects_type(key, !at(key).array && at(key).type == GgufType::text, "a string");
  return characters(at(key).bytes);
}

DECANT_IO_INLINE std::vector<std::string_view> GgufMetadata::texts(std::string_view key) const {
  const GgufValue& value = at(key);
  expects_type(key, value.array && value.type == GgufType::text, "an array of strings");
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(value.count));
  detail::GgufCursor cursor(value.bytes, file_);
  for (Index i = 0; i < value.count; ++i) texts.push_back(cursor.text());
  return texts;
}

DECANT_IO_INLINE std::vector<Index> GgufMetadata::integers(std::string_view key) const {
  return elements<Index>(key,
                         [&](GgufType type, Bytes bytes) { return integer_of(type, bytes, key); });
}

DECANT_IO_INLINE std::vector<double> GgufMetadata::reals(std::string_view key) const {
  return elements<double>(key,
                          [&](GgufType type, Bytes bytes) { return number_of(type, bytes, key); });
}

DECANT_IO_INLINE const GgufValue& GgufMetadata::scalar(std::string_view key) const {
  expects_type(key, !at(key).array, "a single number");
  return at(key);
}

template <class Number, class F>
std::vector<Number> GgufMetadata::elements(std::string_view key, F&& read) const {
  const GgufValue& value = at(key);
  expects_type(key, value.array, "an array");
  expects_type(key, value.type != GgufType::array && value.type != GgufType::text,
               "an array of integers or reals");
  const std::size_t size = detail::info_of(value.type).bytes;
  std::vector<Number> result(static_cast<std::size_t>(value.count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = read(value.type, value.bytes.subspan(i * size, size));
  }
  return result;
}

DECANT_IO_INLINE Index GgufMetadata::integer_of(GgufType type, Bytes bytes,
                                                std::string_view key) const {
  const std::uint64_t bits = little_endian(bytes);
  switch (type) {
    case GgufType::i8:
      return static_cast<std::int8_t>(bits);
    case GgufType::i16:
      return static_cast<std::int16_t>(bits);
    case GgufType::i32:
      return static_cast<std::int32_t>(bits);
    case GgufType::i64:
      return static_cast<Index>(bits);
    case GgufType::u8:
    case GgufType::u16:
    case GgufType::u32:
    case GgufType::u64:
      expects<FormatError>(bits <= std::uint64_t{std::numeric_limits<Index>::max()}, place(key),
                           " is ", bits, ", beyond 63 bits");
      return static_cast<Index>(bits);
    default:
      expects_type(key, false, "an integer");
      return 0;
  }
}

DECANT_IO_INLINE double GgufMetadata::number_of(GgufType type, Bytes bytes,
                                                std::string_view key) const {
  const std::uint64_t bits = little_endian(bytes);
  if (type == GgufType::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (type == GgufType::f64) return std::bit_cast<double>(bits);
  return static_cast<double>(integer_of(type, bytes, key));
}

DECANT_IO_INLINE void GgufMetadata::expects_type(std::string_view key, bool held,
                                                 std::string_view wanted) const {
  expects<FormatError>(held, place(key), " is ", at(key).array ? "an array of " : "a ",
                       detail::info_of(at(key).type).name, ", not ", wanted);
}

}  // namespace decant::inline DECANT_ABI::files
