// decant/kv/detail/panel_span_range.hpp - a range of panel spans, each computed when it is
// accessed.
//
// Tested by   tests/kv/paged_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>

namespace decant::inline DECANT_ABI::kv::detail {

// span(0), span(1), ... as a range of random access. It must outlive its iterators, and the store
// must not change meanwhile.
//
// Threads  as reads of the store
template <std::regular_invocable<Index> F>
class PanelSpanRange {
 public:
  class Iterator {
   public:
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // gives values
    using value_type = PanelSpan;
    using difference_type = Index;

    Iterator() = default;
    Iterator(const F* span, Index at) noexcept : span_(span), at_(at) {}

    PanelSpan operator*() const noexcept { return (*span_)(at_); }
    PanelSpan operator[](Index n) const noexcept { return (*span_)(at_ + n); }
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
    const F* span_ = nullptr;
    Index at_ = 0;
  };

  PanelSpanRange(Index count, F span) noexcept : count_(count), span_(std::move(span)) {}

  Iterator begin() const noexcept { return {&span_, 0}; }
  Iterator end() const noexcept { return {&span_, count_}; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(count_); }
  PanelSpan operator[](Index n) const noexcept { return span_(n); }

 private:
  Index count_;
  F span_;
};

}  // namespace decant::inline DECANT_ABI::kv::detail
