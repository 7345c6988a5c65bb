// decant/files/detail/hash.hpp - a hash of bytes that come one after another.
//
// Source      XXH3 of the xxHash library, by 64 and by 128 bits
// Tested by   tests/files/sealed_tensors_test.cpp, tests/snapshots/fingerprint_test.cpp
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace decant::inline v0::files::detail {

// Errors   std::bad_alloc from the constructor
class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());  // the state of 64 bits is the same
  }

  void add(std::span<const std::byte> bytes) noexcept {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }

  std::uint64_t number() const noexcept { return XXH3_64bits_digest(state_.get()); }

  // 128 bits in hexadecimal digits.
  std::string text() const {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state_.get()));
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (unsigned char byte : bytes.digest) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace decant::inline v0::files::detail
