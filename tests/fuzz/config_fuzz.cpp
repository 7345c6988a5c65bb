// tests/fuzz/config_fuzz.cpp - libFuzzer's entry to the reader of config.json.
#include "fuzz/config_target.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decant::fuzz::accepts_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
