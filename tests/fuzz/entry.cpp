// tests/fuzz/entry.cpp - libFuzzer's entry to the one of the readers that DECANT_READER names.
#include "fuzz/readers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decant::fuzz::DECANT_READER(std::as_bytes(std::span(data, size)));
  return 0;
}
