// tests/fuzz/tokenizer_fuzz.cpp - libFuzzer's entry to the reader of tokenizer.json.
#include "fuzz/tokenizer_target.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decant::fuzz::accepts_tokenizer({reinterpret_cast<const char*>(data), size});
  return 0;
}
