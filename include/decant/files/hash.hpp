// decant/files/hash.hpp - a hash of bytes that come one after another.
//
// Source      XXH3 of the xxHash library, by 64 and by 128 bits
// Tested by   tests/files/sealed_tensors_test.cpp, tests/snapshots/fingerprint_test.cpp
#pragma once

#include <decant/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;  // of the xxHash library

namespace decant::inline DECANT_ABI::files {

// Errors   std::bad_alloc from the constructor
class Hash {
 public:
  Hash();

  void add(std::span<const std::byte> bytes) noexcept;

  std::uint64_t bits64() const noexcept;
  std::string text() const;  // 128 bits in hexadecimal digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace decant::inline DECANT_ABI::files

#ifndef DECANT_COMPILED_IO
#include <decant/files/detail/hash.hpp>
#endif
