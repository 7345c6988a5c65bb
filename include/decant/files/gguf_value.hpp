// decant/files/gguf_value.hpp - one metadata value of a GGUF file.
//
// Tested by   tests/files/gguf_metadata_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::files {

// In the order in which files number them.
enum class GgufType { u8, i8, u16, i16, u32, i32, f32, flag, text, array, u64, i64, f64 };

// A value, and where it lies.
//
// Units    bytes are the characters of a text, the elements of an array, the number of any other;
//          count is that of the elements, 1 if there is no array
struct GgufValue {
  GgufType type;  // of the value, or of each element
  bool array;
  Index count;
  std::span<const std::byte> bytes;
};

}  // namespace decant::inline DECANT_ABI::files
