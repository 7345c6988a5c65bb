// decant/kv/paged.hpp - a paged KV cache: keys and values of one sequence, in pages of a pool.
//
// A fork shares every page of its origin and copies no keys and values; the first sequence to write
// into a part-filled shared page gets a copy of its own. Rewinding releases pages.
//
// Source      Kwon et al. 2023, "PagedAttention", arXiv:2309.06180
// Tested by   tests/kv/paged_test.cpp, tests/law/stores_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/detail/panel_span_range.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/store.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

// Borrows its pool, which must outlive it. Move-only; a store that was moved from holds nothing.
//
// Units    capacity counts the tokens that its own pages and the free ones have room for
// Errors   std::invalid_argument, CacheFull (reserve), std::bad_alloc (reserve, fork); nothing
//          changed then
// Cost     reserve O(pages), and O(bytes of a page) if one is copied; fork O(pages); rewind O(pages
//          released); put O(key_dim + value_dim)
// Threads  as its pool
template <codec::Codec K, codec::Codec V = K>
class Paged {
 public:
  using Keys = K;
  using Values = V;

  explicit Paged(PagePool<K, V>& pool) noexcept : pool_(&pool) {}
  // A sequence of `end` tokens that shares the pages that hold them, each in use or cached.
  //
  // Errors   std::invalid_argument if the tokens need another number of pages, or one is free;
  //          std::bad_alloc
  Paged(PagePool<K, V>& pool, std::span<const PageId> pages, Position end) : pool_(&pool) {
    expects(end >= 0 && ceil_div(end, pool.page_tokens()) == std::ssize(pages), "kv::Paged: ", end,
            " tokens in ", pages.size(), " pages of ", pool.page_tokens());
    for (PageId page : pages) expects(pool.held(page), "kv::Paged: page ", page, " holds nothing");
    pages_.assign(pages.begin(), pages.end());
    for (PageId page : pages_) pool.retain(page);
    end_ = end;
  }
  Paged(Paged&& other) noexcept
      : pool_(other.pool_), pages_(std::move(other.pages_)), end_(std::exchange(other.end_, 0)) {
    other.pages_.clear();
  }
  Paged& operator=(Paged&& other) noexcept {
    Paged taken(std::move(other));
    std::swap(pool_, taken.pool_);
    std::swap(pages_, taken.pages_);
    std::swap(end_, taken.end_);
    return *this;
  }
  ~Paged() { release_from(0); }

  // Another sequence that begins with what this one holds. Precondition: nothing is reserved that
  // was not published.
  [[nodiscard]] Paged fork() const {
    const auto pages = static_cast<std::size_t>(ceil_div(end_, pool_->page_tokens()));
    return Paged(*pool_, std::span(pages_).first(pages), end_);
  }

  const Geometry& geometry() const noexcept { return pool_->geometry(); }
  Position begin(Index) const noexcept { return 0; }
  Position end() const noexcept { return end_; }
  Index sink_tokens() const noexcept { return 0; }
  Index capacity() const noexcept {
    const Index copied = copies_last() ? 1 : 0;
    return std::max(end_,
                    (std::ssize(pages_) + pool_->free_pages() - copied) * pool_->page_tokens());
  }
  // Pages that `tokens` more would take from the pool.
  //
  // Errors   std::invalid_argument
  Index pages_for(Index tokens) const {
    expects(tokens >= 0, "kv::Paged: ", tokens, " more tokens");
    if (tokens == 0) return 0;
    const Index pages = ceil_div(checked_sum(end_, tokens), pool_->page_tokens());
    return std::max<Index>(0, pages - std::ssize(pages_)) + (copies_last() ? 1 : 0);
  }
  Index bytes() const noexcept { return std::ssize(pages_) * pool_->page_bytes(); }
  Position earliest_rewind() const noexcept { return 0; }
  Index window(Index) const noexcept { return 0; }
  Index chunk() const noexcept { return std::numeric_limits<Index>::max(); }

  // Errors   CacheFull when the pool has too few free pages, std::invalid_argument
  void reserve(Index tokens) {
    const Index taken = pages_for(tokens);
    if (tokens == 0) return;
    expects<CacheFull>(taken <= pool_->free_pages(), "kv::Paged: ", tokens, " more tokens take ",
                       taken, " pages, ", pool_->free_pages(), " of ", pool_->total_pages(),
                       " are free");
    const bool copied = copies_last();
    const Index more = taken - (copied ? 1 : 0);
    make_list_room(std::ssize(pages_) + more);
    if (copied) {
      PageId& last = pages_[static_cast<std::size_t>(end_ / pool_->page_tokens())];
      const PageId own = pool_->take();
      pool_->copy(last, own);
      pool_->release(std::exchange(last, own));
    }
    for (Index page = 0; page < more; ++page) pages_.push_back(pool_->take());
    spoil(*this, {end_, end_ + tokens});
  }

  // The panel of one head that `position` lies in. Preconditions: layer and head exist, `position`
  // is held or reserved. A shared panel must not be written.
  std::byte* panel(Index layer, Index head, Position position) noexcept {
    const PageId page = at(position / pool_->page_tokens());
    return pool_->page(page, layer, head) + offset(position);
  }

  // Stores the row of one head in its panel. Preconditions: those of panel(), and the shapes are as
  // said.
  //
  // Shape    key is [key_dim], value is [value_dim]
  void put(Index layer, Index head, Position position, std::span<const float> key,
           std::span<const float> value) noexcept {
    pool_->layout().put(panel(layer, head, position), position % kPanelTokens, key, value);
  }

  // Reads back the row of one head, widened to f32.
  //
  // Shape    key is [key_dim], value is [value_dim]
  // Errors   std::invalid_argument when there is no such place or the shapes differ
  void get(Index layer, Index head, Position position, std::span<float> key,
           std::span<float> value) const {
    check_place(geometry(), layer, head, key.size(), value.size(), "kv::Paged::get");
    expects(position >= 0 && position < end_, "kv::Paged::get: position ", position,
            " is not in [0, ", end_, ")");
    const PagePool<K, V>& pool = *pool_;
    pool.layout().get(pool.page(at(position / pool.page_tokens()), layer, head) + offset(position),
                      position % kPanelTokens, key, value);
  }

  // Counts `tokens` rows, put behind end(), as held. Precondition: they were reserved.
  void publish(Index tokens) noexcept { end_ += tokens; }

  // Drops the rows from `new_end` on and releases the pages that hold no other.
  //
  // Errors   std::invalid_argument when `new_end` is not in [0, end()]
  void rewind(Position new_end) {
    expects(new_end >= 0 && new_end <= end_, "kv::Paged::rewind: ", new_end, " is not in [0, ",
            end_, "]");
    release_from(ceil_div(new_end, pool_->page_tokens()));
    const Position held = std::ssize(pages_) * pool_->page_tokens();
    if (new_end < held && !pool_->shared(pages_.back())) {
      spoil(*this, {new_end, std::min(end_, held)});
    }
    end_ = new_end;
  }

  // One span for each page.
  auto panel_spans(Index layer, Index head) const noexcept {
    return detail::PanelSpanRange(std::ssize(pages_), [this, layer, head](Index page) {
      return PanelSpan{.first = page * pool_->page_tokens(),
                       .tokens = pool_->page_tokens(),
                       .panels = std::as_const(*pool_).page(at(page), layer, head),
                       .panel_bytes = pool_->layout().bytes()};
    });
  }

  // Whether a page that holds positions from `first` on is shared.
  bool shares(Position first) const noexcept {
    const auto page = static_cast<std::ptrdiff_t>(first / pool_->page_tokens());
    return std::any_of(pages_.begin() + std::min(page, std::ssize(pages_)), pages_.end(),
                       [&](PageId at) { return pool_->shared(at); });
  }

  std::span<const PageId> pages() const noexcept { return pages_; }
  const PagePool<K, V>& pool() const noexcept { return *pool_; }

 private:
  PageId at(Index page) const noexcept { return pages_[static_cast<std::size_t>(page)]; }

  // Where in its page the panel of `position` begins.
  Index offset(Position position) const noexcept {
    return position % pool_->page_tokens() / kPanelTokens * pool_->layout().bytes();
  }

  // Whether the next row goes into a shared page, which is copied first.
  bool copies_last() const noexcept {
    const Index last = end_ / pool_->page_tokens();
    return last < std::ssize(pages_) && pool_->shared(at(last));
  }

  // Room for so many pages in the list, which grows by at least half.
  void make_list_room(Index pages) {
    const auto size = static_cast<std::size_t>(pages);
    if (size > pages_.capacity()) pages_.reserve(std::max(size, pages_.capacity() * 3 / 2));
  }

  void release_from(Index count) noexcept {
    for (; std::ssize(pages_) > count; pages_.pop_back()) pool_->release(pages_.back());
  }

  PagePool<K, V>* pool_;
  std::vector<PageId> pages_;
  Position end_ = 0;
};

}  // namespace decant::inline DECANT_ABI::kv
