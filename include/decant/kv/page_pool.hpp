// decant/kv/page_pool.hpp - memory for the keys and values of many sequences, in pages.
//
// A page holds the panels of some consecutive tokens, of every layer and head. Pages are reference
// counted: a page that several sequences share is not written. Of one layer and head all pages
// lie in one run of memory, so that neighbours are read as one.
//
//   free + in use + cached = total, always
//
// Source      Kwon et al. 2023, "PagedAttention", arXiv:2309.06180
// Tested by   tests/kv/page_pool_test.cpp, tests/kv/paged_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/error.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/geometry.hpp>
#include <decant/kv/panel.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory_resource>
#include <vector>

namespace decant::inline DECANT_ABI::kv {

// The index of a page of a pool, in [0, pages).
using PageId = std::int32_t;

// Neither copied nor moved: sequences point to it, and it must outlive them.
//
// Shape    memory is [layers][heads][pages][page_tokens / 16] panels
// Units    page_tokens counts tokens, a multiple of 16
// Errors   std::invalid_argument, std::bad_alloc from the constructor; CacheFull from take()
// Cost     take, retain and release O(1), copy O(bytes of a page); only the constructor allocates
// Threads  one thread at a time, for the pool and every sequence in it, except that panels may be
//          written and read by several while pages are neither taken nor released; with
//          DECANT_DEBUG_STORES a program that violates this ends with a message
template <codec::Codec K, codec::Codec V = K>
class PagePool {
 public:
  PagePool(const Geometry& geometry, Index pages, Index page_tokens,
           std::pmr::memory_resource& memory = default_memory())
      : geometry_(geometry),
        layout_(geometry),
        pages_(checked_pages(geometry, pages, page_tokens)),
        page_tokens_(page_tokens),
        counts_(static_cast<std::size_t>(pages)),
        memory_(checked_product({geometry.layers, geometry.heads, pages, run_stride()}), memory) {
    free_.reserve(counts_.size());
    for (Index page = pages; page > 0; --page) free_.push_back(static_cast<PageId>(page - 1));
    for (PageId page : free_) {
      for_runs(page, [&](std::byte* run) { debug::set_canary(run + run_bytes()); });
      close(page);
    }
  }
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool() {
    for (PageId page = 0; page < pages_; ++page) {
      for_runs(page, [&](std::byte* run) { debug::check_canary(run + run_bytes()); });
    }
    debug::unpoison(memory_.data(), memory_.bytes());
  }

  // What a pool of `pages` pages allocates for keys and values.
  static constexpr Index bytes_for(const Geometry& geometry, Index pages, Index page_tokens) {
    return checked_product(pages, geometry.bytes<K, V>(page_tokens));
  }

  const Geometry& geometry() const noexcept { return geometry_; }
  const PanelLayout<K, V>& layout() const noexcept { return layout_; }
  Index page_tokens() const noexcept { return page_tokens_; }
  Index page_bytes() const noexcept { return geometry_.layers * geometry_.heads * run_bytes(); }
  Index bytes() const noexcept { return pages_ * page_bytes(); }

  Index total_pages() const noexcept { return pages_; }
  Index free_pages() const noexcept { return std::ssize(free_); }
  Index cached_pages() const noexcept { return cached_; }
  Index used_pages() const noexcept { return pages_ - free_pages() - cached_; }

  // A free page, with one user: the one released last, or the lowest never taken.
  //
  // Errors   CacheFull when none is free
  PageId take() {
    const debug::SoleUse::Visit visit(use_);
    expects<CacheFull>(!free_.empty(), "kv::PagePool: none of ", pages_, " pages is free");
    const PageId page = free_.back();
    free_.pop_back();
    count(page).users = 1;
    for_runs(page, [&](std::byte* run) { debug::unpoison(run, run_bytes()); });
    return page;
  }

  // Adds a user of a page that is in use or cached; removes one.
  void retain(PageId page) noexcept {
    const debug::SoleUse::Visit visit(use_);
    if (count(page).users++ == 0) cached_ -= 1;
  }
  void release(PageId page) noexcept {
    const debug::SoleUse::Visit visit(use_);
    if (--count(page).users > 0) return;
    if (count(page).caches > 0) {
      cached_ += 1;
    } else {
      close(page);
      free_.push_back(page);
    }
  }

  // Adds or removes a cache that holds a page, which then stays cached without users. The page is
  // in use or cached.
  void cache(PageId page) noexcept {
    const debug::SoleUse::Visit visit(use_);
    count(page).caches += 1;
  }
  void drop(PageId page) noexcept {
    const debug::SoleUse::Visit visit(use_);
    if (--count(page).caches > 0 || count(page).users > 0) return;
    cached_ -= 1;
    close(page);
    free_.push_back(page);
  }

  // Whether there is such a page, in use or cached; and whether a sequence uses it.
  bool held(PageId page) const noexcept {
    return page >= 0 && page < pages_ && (count(page).users > 0 || count(page).caches > 0);
  }
  bool used(PageId page) const noexcept { return count(page).users > 0; }

  // Whether a second sequence or a cache holds it, so that it must not be written.
  bool shared(PageId page) const noexcept {
    return count(page).users > 1 || count(page).caches > 0;
  }

  // Copies the contents of `from` to `to`.
  void copy(PageId from, PageId to) noexcept {
    const auto bytes = static_cast<std::size_t>(run_bytes());
    for (Index layer = 0; layer < geometry_.layers; ++layer) {
      for (Index head = 0; head < geometry_.heads; ++head) {
        std::memcpy(page(to, layer, head), page(from, layer, head), bytes);
      }
    }
  }

  // The panels of a page, of one layer and head.
  std::byte* page(PageId at, Index layer, Index head) noexcept {
    return memory_.data() + offset(at, layer, head);
  }
  const std::byte* page(PageId at, Index layer, Index head) const noexcept {
    return memory_.data() + offset(at, layer, head);
  }

 private:
  struct Count {
    std::int32_t users = 0;
    std::int32_t caches = 0;
  };

  static Index checked_pages(const Geometry& geometry, Index pages, Index page_tokens) {
    check(geometry, "kv::PagePool");
    expects(pages > 0 && pages <= std::numeric_limits<PageId>::max(), "kv::PagePool: ", pages,
            " pages");
    expects(page_tokens > 0 && page_tokens % kPanelTokens == 0, "kv::PagePool: pages of ",
            page_tokens, " tokens, which is no multiple of ", kPanelTokens);
    static_cast<void>(bytes_for(geometry, pages, page_tokens));  // before anything is allocated
    return pages;
  }

  Count& count(PageId page) noexcept { return counts_[static_cast<std::size_t>(page)]; }
  const Count& count(PageId page) const noexcept { return counts_[static_cast<std::size_t>(page)]; }

  // f(run) for the panels of a page, of every layer and head, in the debug mode.
  template <class F>
  void for_runs([[maybe_unused]] PageId at, F&& f) noexcept {
    if constexpr (kDebugStores) {
      for (Index layer = 0; layer < geometry_.layers; ++layer) {
        for (Index head = 0; head < geometry_.heads; ++head) f(page(at, layer, head));
      }
    } else {
      static_cast<void>(f);
    }
  }
  // Makes a page that becomes free unreadable.
  void close(PageId page) noexcept {
    for_runs(page, [&](std::byte* run) {
      debug::check_canary(run + run_bytes());
      debug::spoil(run, run_bytes());
      debug::poison(run, run_bytes());
    });
  }

  Index run_bytes() const noexcept { return page_tokens_ / kPanelTokens * layout_.bytes(); }
  Index run_stride() const noexcept { return run_bytes() + debug::kCanaryBytes; }
  Index offset(PageId at, Index layer, Index head) const noexcept {
    return ((layer * geometry_.heads + head) * pages_ + at) * run_stride();
  }

  Geometry geometry_;
  PanelLayout<K, V> layout_;
  Index pages_, page_tokens_;
  Index cached_ = 0;
  std::vector<Count> counts_;
  std::vector<PageId> free_;
  debug::SoleUse use_;
  Buffer<std::byte> memory_;
};

}  // namespace decant::inline DECANT_ABI::kv
