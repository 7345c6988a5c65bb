// decant/core/memory.hpp - where the large buffers of weights, caches and workspaces come from.
//
// Whoever makes a store, a workspace or weights may say from which memory, by a resource of the
// standard library: one that counts, that limits, that is shared, or one of those here. Which one
// it is changes no bit and no step, since steps do not allocate.
//
// Tested by   tests/core/memory_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <cstddef>
#include <memory_resource>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace decant::inline DECANT_ABI {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // bytes

namespace detail {

// operator new. What is to begin at a huge page asks for huge pages, since reading gigabytes
// through 4 KiB pages spends a tenth of the time on their addresses.
class HeapMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* data = ::operator new(bytes, std::align_val_t{alignment});
#if defined(__linux__)
    if (alignment >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);  // or it is not
#endif
    return data;
  }
  void do_deallocate(void* data, std::size_t, std::size_t alignment) override {
    ::operator delete(data, std::align_val_t{alignment});
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace detail

// The memory of whatever was not told another: the heap, in huge pages where it is large.
//
// Errors   std::bad_alloc from allocate()
// Threads  any number at once
inline std::pmr::memory_resource& default_memory() {
  static detail::HeapMemory memory;
  return memory;
}

}  // namespace decant::inline DECANT_ABI
