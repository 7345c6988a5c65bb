// decant/kv/block_range.hpp - blocks that are made when they are looked at.
//
// Depends on  kv/block.hpp
// Tested by   tests/kv/paged_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/kv/block.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>

namespace decant::inline v0::kv {

// block(0), block(1), ... as a range of random access. It must outlive its iterators, and the store
// must not change meanwhile.
//
// Threads  as reads of the store
template <std::regular_invocable<Index> F>
class BlockRange {
 public:
  class Iterator {
   public:
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // gives values
    using value_type = Block;
    using difference_type = Index;

    Iterator() = default;
    Iterator(const F* block, Index at) noexcept : block_(block), at_(at) {}

    Block operator*() const noexcept { return (*block_)(at_); }
    Block operator[](Index n) const noexcept { return (*block_)(at_ + n); }
    Iterator& operator+=(Index n) noexcept {
      at_ += n;
      return *this;
    }
    Iterator& operator-=(Index n) noexcept { return *this += -n; }
    Iterator& operator++() noexcept { return *this += 1; }
    Iterator& operator--() noexcept { return *this -= 1; }
    Iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }

    friend Iterator operator+(Iterator at, Index n) noexcept { return at += n; }
    friend Iterator operator+(Index n, Iterator at) noexcept { return at += n; }
    friend Iterator operator-(Iterator at, Index n) noexcept { return at -= n; }
    friend Index operator-(const Iterator& a, const Iterator& b) noexcept { return a.at_ - b.at_; }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.at_ == b.at_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) noexcept {
      return a.at_ <=> b.at_;
    }

   private:
    const F* block_ = nullptr;
    Index at_ = 0;
  };

  BlockRange(Index count, F block) noexcept : count_(count), block_(std::move(block)) {}

  Iterator begin() const noexcept { return {&block_, 0}; }
  Iterator end() const noexcept { return {&block_, count_}; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(count_); }
  Block operator[](Index n) const noexcept { return block_(n); }

 private:
  Index count_;
  F block_;
};

}  // namespace decant::inline v0::kv
