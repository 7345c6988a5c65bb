// decant/core/buffer.hpp - one run of cells, aligned to a cache line, that never grows.
//
// Cells of a cache are written before they are read, so fresh memory is not
// initialised: a large store costs only address space until its tokens arrive. Large buffers ask
// for huge pages, since reading gigabytes through 4 KiB pages spends a tenth of the time on their
// addresses.
//
// Tested by   tests/core/buffer_test.cpp
#pragma once

#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace decant::inline DECANT_ABI {

// `size` cells of a trivial type, uninitialised, aligned to 64 bytes or more. Move-only.
//
// Errors   std::invalid_argument (size), std::bad_alloc from the constructor
// Cost     the constructor allocates once; everything else is O(1)
// Threads  as a std::vector
template <class Cell>
class Buffer {
  static_assert(std::is_trivially_copyable_v<Cell>);

 public:
  Buffer() = default;
  explicit Buffer(Index size) : size_(size) {
    const Index bytes = checked_product(size, static_cast<Index>(sizeof(Cell)));
    if (bytes > 0) {
      data_ = static_cast<Cell*>(::operator new(static_cast<std::size_t>(bytes), alignment()));
      advise(data_, static_cast<std::size_t>(bytes));
    }
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) ::operator delete(data_, alignment());
  }

  Cell* data() noexcept { return data_; }
  const Cell* data() const noexcept { return data_; }
  Index size() const noexcept { return size_; }
  Index bytes() const noexcept { return size_ * static_cast<Index>(sizeof(Cell)); }

  Cell& operator[](Index at) noexcept { return data_[at]; }
  const Cell& operator[](Index at) const noexcept { return data_[at]; }

 private:
  static constexpr Index kHugePage = Index{2} << 20;

  std::align_val_t alignment() const noexcept {
    return std::align_val_t{bytes() >= 4 * kHugePage ? std::size_t{kHugePage} : 64};
  }

  void advise([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) const noexcept {
#if defined(__linux__)
    if (alignment() != std::align_val_t{64}) madvise(data, bytes, MADV_HUGEPAGE);  // or it is not
#endif
  }

  Cell* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace decant::inline DECANT_ABI
