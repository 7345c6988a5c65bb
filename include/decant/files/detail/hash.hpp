// decant/files/detail/hash.hpp - definitions of files/hash.hpp.
//
// Tested by   tests/files/sealed_tensors_test.cpp, tests/snapshots/fingerprint_test.cpp
#pragma once

#include <decant/files/hash.hpp>

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI::files {

DECANT_IO_INLINE Hash::Hash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());  // the state of 64 bits is the same
}

DECANT_IO_INLINE void Hash::add(std::span<const std::byte> bytes) noexcept {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

DECANT_IO_INLINE std::uint64_t Hash::bits64() const noexcept {
  return XXH3_64bits_digest(state_.get());
}

DECANT_IO_INLINE std::string Hash::text() const {
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

DECANT_IO_INLINE void Hash::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

}  // namespace decant::inline DECANT_ABI::files
