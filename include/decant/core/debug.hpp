// decant/core/debug.hpp - debug memory, in which reads too early, too late or out of bounds show.
//
// With DECANT_DEBUG_STORES defined, in every source of a program, slots without a row hold NaN
// of their format, so that a kernel that reads one gives NaN; pages of a pool have canaries between
// them; the address sanitizer refuses access to free pages; and two threads that change one pool at
// once end the program. Without the macro none of this is compiled.
//
// Tested by   tests/kv/debug_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#if defined(DECANT_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace decant::inline DECANT_ABI {

#if defined(DECANT_DEBUG_STORES)
inline constexpr bool kDebugStores = true;
#else
inline constexpr bool kDebugStores = false;
#endif

namespace debug {

// NaN as cells of f32, bf16 and f16, and as a scale, which makes whatever it multiplies NaN.
inline constexpr std::byte kSpoiled{0xFF};
inline constexpr std::byte kCanary{0xC5};
inline constexpr Index kCanaryBytes = kDebugStores ? 64 : 0;

inline void spoil([[maybe_unused]] void* at, [[maybe_unused]] Index bytes) noexcept {
  if constexpr (kDebugStores) std::fill_n(static_cast<std::byte*>(at), bytes, kSpoiled);
}

inline void set_canary([[maybe_unused]] std::byte* at) noexcept {
  if constexpr (kDebugStores) std::fill_n(at, kCanaryBytes, kCanary);
}
// Ends the program if a canary was overwritten.
inline void check_canary([[maybe_unused]] const std::byte* at) noexcept {
  if constexpr (kDebugStores) {
    if (std::all_of(at, at + kCanaryBytes, [](std::byte each) { return each == kCanary; })) return;
    std::fputs("decant: something was written behind the end of a page\n", stderr);
    std::abort();
  }
}

inline void poison([[maybe_unused]] const void* at, [[maybe_unused]] Index bytes) noexcept {
#if defined(DECANT_ADDRESS_SANITIZER)
  if constexpr (kDebugStores) ASAN_POISON_MEMORY_REGION(at, static_cast<std::size_t>(bytes));
#endif
}
inline void unpoison([[maybe_unused]] const void* at, [[maybe_unused]] Index bytes) noexcept {
#if defined(DECANT_ADDRESS_SANITIZER)
  if constexpr (kDebugStores) ASAN_UNPOISON_MEMORY_REGION(at, static_cast<std::size_t>(bytes));
#endif
}

// Ends the program if two threads are inside at once: an object that one thread at a time may
// change is changed by two.
class SoleUse {
 public:
  class Visit {
   public:
    explicit Visit([[maybe_unused]] SoleUse& use) noexcept {
      if constexpr (kDebugStores) {
        use_ = &use;
        if (!use.inside_.test_and_set(std::memory_order_acquire)) return;
        std::fputs("decant: two threads change one pool at the same time\n", stderr);
        std::abort();
      }
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() {
      if constexpr (kDebugStores) use_->inside_.clear(std::memory_order_release);
    }

   private:
    SoleUse* use_ = nullptr;
  };

 private:
  std::atomic_flag inside_;
};

}  // namespace debug

}  // namespace decant::inline DECANT_ABI
