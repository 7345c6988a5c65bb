// tests/fuzz/safetensors_fuzz.cpp - libFuzzer's entry to the reader of safetensors files.
#include "fuzz/safetensors_target.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decant::fuzz::accepts_safetensors(std::as_bytes(std::span(data, size)));
  return 0;
}
