// decant/files/detail/gguf_cursor.hpp - the bytes at the front of a GGUF file, read without trust.
//
//   text     8 bytes of length, then the characters
//   array    4 bytes of element type, 8 bytes of count, then the elements
//   others   1, 2, 4 or 8 bytes, little-endian
//
// A value stays where it lies. Reading one means walking over it and checking every length in it
// against what is left of the file, so that an array costs no memory, whatever size it claims.
//
// Source      the GGUF specification in the ggml repository (docs/gguf.md)
// Tested by   tests/files/gguf_metadata_test.cpp, tests/fuzz/gguf_target.hpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/gguf_value.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI::files::detail {

inline constexpr int kMaxGgufDepth = 4;  // of arrays in arrays

struct GgufTypeInfo {
  std::string_view name;
  std::size_t bytes;  // that the smallest value takes
};
inline constexpr std::array<GgufTypeInfo, 13> kGgufTypes = {{{"u8", 1},
                                                             {"i8", 1},
                                                             {"u16", 2},
                                                             {"i16", 2},
                                                             {"u32", 4},
                                                             {"i32", 4},
                                                             {"f32", 4},
                                                             {"bool", 1},
                                                             {"string", 8},
                                                             {"array", 12},
                                                             {"u64", 8},
                                                             {"i64", 8},
                                                             {"f64", 8}}};

inline const GgufTypeInfo& info_of(GgufType type) {
  return kGgufTypes[static_cast<std::size_t>(type)];
}

// Walks over the bytes of a file.
//
// Errors   FormatError naming the file, what is being read, and the byte where it would lie
// Threads  one walk at a time
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file), what_(file) {}

  // What sentences say is being read, from here on; it is shown as printable text.
  void enter(std::string_view what) { what_ = sentence(file_, ": ", printable(what)); }
  const std::string& what() const noexcept { return what_; }

  std::size_t at() const noexcept { return at_; }
  std::size_t left() const noexcept { return bytes_.size() - at_; }

  std::span<const std::byte> take(std::uint64_t size) {
    expects<FormatError>(size <= left(), what_, ": ", size, " bytes are needed at byte ", at_,
                         ", where the file has ", left(), " left");
    const auto taken = bytes_.subspan(at_, static_cast<std::size_t>(size));
    at_ += taken.size();
    return taken;
  }
  std::uint64_t number(std::size_t bytes) { return little_endian(take(bytes)); }

  // A count of things of which each takes `smallest` bytes or more.
  Index count(std::string_view things, std::size_t smallest) {
    const std::uint64_t count = number(8);
    expects<FormatError>(count <= left() / smallest, what_, ": ", count, " ", things,
                         " do not fit in the ", left(), " bytes behind byte ", at_);
    return static_cast<Index>(count);
  }
  std::string_view text() { return characters(take(number(8))); }

  GgufType type() {
    const std::uint64_t number = this->number(4);
    expects<FormatError>(number < kGgufTypes.size(), what_, ": value type ", number,
                         " before byte ", at_, " is unknown");
    return static_cast<GgufType>(number);
  }

  GgufValue value(GgufType type, int depth = 0) {
    if (type == GgufType::array) return array(depth + 1);
    if (type == GgufType::text) return {type, false, 1, take(number(8))};
    const GgufValue value = {type, false, 1, take(info_of(type).bytes)};
    check_flags(value);
    return value;
  }

 private:
  GgufValue array(int depth) {
    expects<FormatError>(depth <= kMaxGgufDepth, what_, ": arrays nested deeper than ",
                         kMaxGgufDepth, " at byte ", at_);
    const GgufType type = this->type();
    const std::size_t smallest = info_of(type).bytes;
    GgufValue value = {type, true, count("elements", smallest), {}};
    const std::size_t from = at_;
    if (type == GgufType::text || type == GgufType::array) {
      for (Index i = 0; i < value.count; ++i) this->value(type, depth);
    } else {
      take(static_cast<std::uint64_t>(value.count) * smallest);
    }
    value.bytes = bytes_.subspan(from, at_ - from);
    check_flags(value);
    return value;
  }

  void check_flags(const GgufValue& value) const {
    const bool odd = value.type == GgufType::flag &&
                     std::ranges::any_of(value.bytes, [](std::byte b) { return b > std::byte{1}; });
    expects<FormatError>(!odd, what_, ": a bool before byte ", at_, " is neither 0 nor 1");
  }

  std::span<const std::byte> bytes_;
  std::string file_;
  std::string what_;
  std::size_t at_ = 0;
};

}  // namespace decant::inline DECANT_ABI::files::detail
