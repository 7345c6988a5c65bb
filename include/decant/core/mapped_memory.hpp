// decant/core/mapped_memory.hpp - memory straight from the system, whose pages are chosen: small or
// huge, and on which node of a machine with several memories (NUMA).
//
// The default memory leaves both to the system. A process that serves one model on each node binds
// weights, caches and workspaces to it, so that no core reads through another's memory controller.
//
// Source      Linux manual pages, mmap(2), madvise(2), mbind(2)
// Tested by   tests/core/memory_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/memory.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <optional>
#include <system_error>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace decant::inline DECANT_ABI {

// Pages are advice that the system follows when it can; a node is an order. Neither copied nor
// moved.
//
// Errors   std::invalid_argument (a node outside [0, 1024)) and std::system_error (a node that is
//          not there, a system that cannot bind) from the constructor; std::bad_alloc from
//          allocate()
// Cost     allocate() asks the system each time: for large buffers only
// Threads  any number at once
class MappedMemory final : public std::pmr::memory_resource {
 public:
  struct Options {
    bool huge_pages = true;
    std::optional<int> node = std::nullopt;
  };

  explicit MappedMemory(const Options& options);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t bytes, std::size_t) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  void* map(std::size_t bytes, std::size_t alignment) const;
  int bind(void* data, std::size_t bytes) const noexcept;

  Options options_;
};

#if defined(__linux__)

namespace detail {

inline constexpr std::size_t kMappedPage = std::size_t{1} << 16;  // a multiple of what systems have

// Whole pages.
inline std::size_t mapped_bytes(std::size_t bytes) noexcept {
  return (bytes + kMappedPage - 1) / kMappedPage * kMappedPage;
}

}  // namespace detail

inline MappedMemory::MappedMemory(const Options& options) : options_(options) {
  if (!options.node) return;
  expects(*options.node >= 0 && *options.node < 1024, "MappedMemory: node ", *options.node,
          " is not in [0, 1024)");
  void* trial = map(detail::kMappedPage, 1);
  const int error = bind(trial, detail::kMappedPage);
  ::munmap(trial, detail::kMappedPage);
  if (error != 0) {
    throw std::system_error(error, std::generic_category(),
                            sentence("MappedMemory: node ", *options.node));
  }
}

inline void* MappedMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t size = detail::mapped_bytes(bytes);
  void* data = map(size, alignment);
  ::madvise(data, size, options_.huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (options_.node && bind(data, size) != 0) {
    ::munmap(data, size);
    throw std::bad_alloc();
  }
  return data;
}

inline void MappedMemory::do_deallocate(void* data, std::size_t bytes, std::size_t) {
  ::munmap(data, detail::mapped_bytes(bytes));
}

// Maps more than is asked for, and gives back what lies before and behind the aligned part.
inline void* MappedMemory::map(std::size_t bytes, std::size_t alignment) const {
  const std::size_t spare = std::max(alignment, detail::kMappedPage);
  void* data = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::byte*>(data);
  const std::size_t before = (spare - reinterpret_cast<std::uintptr_t>(data) % spare) % spare;
  if (before > 0) ::munmap(first, before);
  if (before < spare) ::munmap(first + before + bytes, spare - before);
  return first + before;
}

// An error number, or 0.
inline int MappedMemory::bind(void* data, std::size_t bytes) const noexcept {
#if defined(SYS_mbind)
  constexpr int kBind = 2;  // MPOL_BIND
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  unsigned long nodes[1024 / kBits] = {};
  const auto node = static_cast<std::size_t>(*options_.node);
  nodes[node / kBits] = 1UL << node % kBits;
  return ::syscall(SYS_mbind, data, bytes, kBind, nodes, 1024 + 1, 0) == 0 ? 0 : errno;
#else
  static_cast<void>(data), static_cast<void>(bytes);
  return ENOSYS;
#endif
}

#else

inline MappedMemory::MappedMemory(const Options& options) : options_(options) {
  throw std::system_error(std::make_error_code(std::errc::function_not_supported), "MappedMemory");
}
inline void* MappedMemory::do_allocate(std::size_t, std::size_t) { throw std::bad_alloc(); }
inline void MappedMemory::do_deallocate(void*, std::size_t, std::size_t) {}

#endif

}  // namespace decant::inline DECANT_ABI
