// tests/fuzz/readers.hpp - everything that reads a file, as what libFuzzer calls. The readers are
// compiled once for all fuzz targets, in readers.cpp.
#pragma once

#include <cstddef>
#include <span>

namespace decant::fuzz {

void config(std::span<const std::byte> bytes);
void gguf(std::span<const std::byte> bytes);
void packed(std::span<const std::byte> bytes);
void safetensors(std::span<const std::byte> bytes);
void snapshot(std::span<const std::byte> bytes);
void tokenizer(std::span<const std::byte> bytes);

}  // namespace decant::fuzz
