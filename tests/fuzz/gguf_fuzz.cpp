// tests/fuzz/gguf_fuzz.cpp - libFuzzer's entry to the reader of GGUF files.
#include "fuzz/gguf_target.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decant::fuzz::accepts_gguf(std::as_bytes(std::span(data, size)));
  return 0;
}
