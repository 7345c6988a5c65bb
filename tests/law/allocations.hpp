// tests/law/allocations.hpp - every operator new of an executable, counted, and failing when told
// to.
//
// For one source of each executable: it replaces the operators.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace decant::trial {

std::atomic<long> allocations = 0;
// Allocations that succeed before one does not; below 0 all do.
std::atomic<long> until_failure = -1;

// Runs `work` with its first allocation failing, then with its second, until none fails; after each
// failure `check` looks at what is left. Returns how many failed.
template <class Work, class Check>
long fail_each_allocation(Work&& work, Check&& check) {
  for (long at = 0;; ++at) {
    until_failure = at;
    try {
      work();
      until_failure = -1;
      return at;
    } catch (const std::bad_alloc&) {
      until_failure = -1;
    }
    check();
    if (testing::Test::HasFatalFailure()) return at;
  }
}

inline void* counted(std::size_t size, std::size_t alignment) {
  allocations += 1;
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Never inlined: GCC would see free() given what operator new returned, and warn.
[[gnu::noinline]] inline void released(void* memory) noexcept { std::free(memory); }

inline void* counted_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return counted(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace decant::trial

void* operator new(std::size_t size) { return decant::trial::counted(size, 1); }
void* operator new[](std::size_t size) { return decant::trial::counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return decant::trial::counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return decant::trial::counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return decant::trial::counted_or_null(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return decant::trial::counted_or_null(size, 1);
}
void operator delete(void* memory) noexcept { decant::trial::released(memory); }
void operator delete[](void* memory) noexcept { decant::trial::released(memory); }
void operator delete(void* memory, std::size_t) noexcept { decant::trial::released(memory); }
void operator delete[](void* memory, std::size_t) noexcept { decant::trial::released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { decant::trial::released(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { decant::trial::released(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  decant::trial::released(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  decant::trial::released(memory);
}
