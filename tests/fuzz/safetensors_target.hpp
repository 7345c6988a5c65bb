// tests/fuzz/safetensors_target.hpp - one safetensors file of unknown worth, read to the end.
#pragma once

#include <decant/files/safetensors.hpp>

#include <cstddef>
#include <exception>
#include <span>

namespace decant::fuzz {

// Whether `bytes` are a safetensors file. Anything but a file or a FormatError is a fault of the
// reader, and so are tensors that do not cover the data byte for byte.
inline bool accepts_safetensors(std::span<const std::byte> bytes) {
  try {
    const files::Safetensors file = files::Safetensors::parse(bytes, "fuzz.safetensors");
    std::size_t covered = 0;
    std::size_t sum = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      covered += tensor.data.size();
      for (std::byte each : tensor.data) sum += std::to_integer<std::size_t>(each);
    }
    const auto header = files::little_endian(bytes.first<8>());
    if (8 + header + covered != bytes.size() || sum > 255 * covered) std::terminate();
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace decant::fuzz
