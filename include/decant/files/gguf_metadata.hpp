// decant/files/gguf_metadata.hpp - the keys and values of a GGUF file, asked for by name and type.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md)
// Tested by   tests/files/gguf_metadata_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf_value.hpp>
#include <decant/files/utf8.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::files {

// Borrows the bytes that it was read from.
//
// Errors   FormatError naming file and key: absent, of another type, out of range, or given twice
// Cost     reading is linear in the bytes, look-ups are logarithmic in the keys
// Threads  const access may overlap
class GgufMetadata {
 public:
  // The next `count` pairs.
  static GgufMetadata read(GgufCursor& cursor, Index count, std::string_view file) {
    GgufMetadata metadata{std::string(file)};
    for (Index i = 0; i < count; ++i) {
      cursor.enter(sentence("metadata key ", i));
      const std::string_view key = cursor.text();
      cursor.enter(key);
      const GgufValue value = cursor.value(cursor.type());
      expects<FormatError>(metadata.values_.emplace(key, value).second, cursor.what(),
                           " is given twice");
    }
    return metadata;
  }

  const std::string& file() const noexcept { return file_; }
  // How a sentence names a key: "model.gguf: general.alignment".
  std::string place(std::string_view key) const { return sentence(file_, ": ", printable(key)); }

  Index size() const noexcept { return std::ssize(values_); }
  bool has(std::string_view key) const { return values_.contains(key); }
  const GgufValue& at(std::string_view key) const {
    const auto found = values_.find(key);
    expects<FormatError>(found != values_.end(), place(key), " is absent");
    return found->second;
  }

  Index integer(std::string_view key) const {
    const GgufValue& value = scalar(key);
    return integer_of(value.type, value.bytes, key);
  }
  Index integer_or(std::string_view key, Index otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  // A finite number of any type.
  double number(std::string_view key) const {
    const GgufValue& value = scalar(key);
    const double number = number_of(value.type, value.bytes, key);
    expects<FormatError>(std::isfinite(number), place(key), " is not a finite number");
    return number;
  }
  double number_or(std::string_view key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  bool flag_or(std::string_view key, bool otherwise) const {
    if (!has(key)) return otherwise;
    expects_type(key, !at(key).array && at(key).type == GgufType::flag, "a bool");
    return at(key).bytes[0] != std::byte{0};
  }
  std::string_view text(std::string_view key) const {
    expects_type(key, !at(key).array && at(key).type == GgufType::text, "a string");
    return characters(at(key).bytes);
  }
  std::string_view text_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? text(key) : otherwise;
  }

  std::vector<std::string_view> texts(std::string_view key) const {
    const GgufValue& value = at(key);
    expects_type(key, value.array && value.type == GgufType::text, "an array of strings");
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<std::size_t>(value.count));
    GgufCursor cursor(value.bytes, file_);
    for (Index i = 0; i < value.count; ++i) texts.push_back(cursor.text());
    return texts;
  }
  std::vector<Index> integers(std::string_view key) const {
    return elements<Index>(key,
                           [&](GgufType type, auto bytes) { return integer_of(type, bytes, key); });
  }
  std::vector<double> numbers(std::string_view key) const {
    return elements<double>(key,
                            [&](GgufType type, auto bytes) { return number_of(type, bytes, key); });
  }

 private:
  using Bytes = std::span<const std::byte>;

  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}

  const GgufValue& scalar(std::string_view key) const {
    expects_type(key, !at(key).array, "a single number");
    return at(key);
  }

  template <class Number, class F>
  std::vector<Number> elements(std::string_view key, F&& read) const {
    const GgufValue& value = at(key);
    expects_type(key, value.array, "an array");
    expects_type(key, value.type != GgufType::array && value.type != GgufType::text,
                 "an array of numbers");
    const std::size_t size = detail::info_of(value.type).bytes;
    std::vector<Number> numbers(static_cast<std::size_t>(value.count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = read(value.type, value.bytes.subspan(i * size, size));
    }
    return numbers;
  }

  Index integer_of(GgufType type, Bytes bytes, std::string_view key) const {
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
  double number_of(GgufType type, Bytes bytes, std::string_view key) const {
    const std::uint64_t bits = little_endian(bytes);
    if (type == GgufType::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (type == GgufType::f64) return std::bit_cast<double>(bits);
    return static_cast<double>(integer_of(type, bytes, key));
  }

  void expects_type(std::string_view key, bool held, std::string_view wanted) const {
    expects<FormatError>(held, place(key), " is ", at(key).array ? "an array of " : "a ",
                         detail::info_of(at(key).type).name, ", not ", wanted);
  }

  std::string file_;
  std::map<std::string_view, GgufValue> values_;
};

}  // namespace decant::inline v0::files
