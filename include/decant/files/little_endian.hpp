// decant/files/little_endian.hpp - a number from the bytes of a file.
//
// Tested by   tests/files/safetensors_test.cpp, tests/files/gguf_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace decant::inline v0::files {

// At most eight bytes, the least significant one first.
constexpr std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

}  // namespace decant::inline v0::files
