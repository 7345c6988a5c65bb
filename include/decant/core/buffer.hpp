// decant/core/buffer.hpp - one run of cells, aligned to a cache line, that never grows.
//
// Cells of a cache are written before they are read, so fresh memory is not
// initialised: a large store costs only address space until its tokens arrive. Large buffers begin
// at a huge page.
//
// Tested by   tests/core/buffer_test.cpp
#pragma once

#include <decant/core/memory.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <utility>

namespace decant::inline DECANT_ABI {

// `size` cells of a trivial type, uninitialised, aligned to 64 bytes or more. Move-only; the memory
// is borrowed and must outlive the buffer.
//
// Errors   std::invalid_argument (size), what the memory throws (std::bad_alloc), from the
//          constructor
// Cost     the constructor allocates once; everything else is O(1)
// Threads  as a std::vector
template <class Cell>
class Buffer {
  static_assert(std::is_trivially_copyable_v<Cell>);

 public:
  Buffer() = default;
  explicit Buffer(Index size, std::pmr::memory_resource& memory = default_memory())
      : memory_(&memory), size_(size) {
    if (checked_product(size, static_cast<Index>(sizeof(Cell))) > 0) {
      data_ = static_cast<Cell*>(memory.allocate(static_cast<std::size_t>(bytes()), alignment()));
    }
  }
  Buffer(Buffer&& other) noexcept
      : memory_(other.memory_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) {
      memory_->deallocate(data_, static_cast<std::size_t>(bytes()), alignment());
    }
  }

  Cell* data() noexcept { return data_; }
  const Cell* data() const noexcept { return data_; }
  Index size() const noexcept { return size_; }
  Index bytes() const noexcept { return size_ * static_cast<Index>(sizeof(Cell)); }

  Cell& operator[](Index at) noexcept { return data_[at]; }
  const Cell& operator[](Index at) const noexcept { return data_[at]; }

 private:
  std::size_t alignment() const noexcept {
    return static_cast<std::size_t>(bytes()) >= 4 * kHugePage ? kHugePage : 64;
  }

  std::pmr::memory_resource* memory_ = nullptr;
  Cell* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace decant::inline DECANT_ABI
