// tests/kv/paged_test.cpp - sequences that share the pages of one pool, under any operations,
// against lists of all rows.
#include <decant/kv/paged.hpp>

#include "kv/stores.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F32;
using codec::Int8;
using kv::Paged;
using kv::PagePool;
using trial::append;
using trial::holds;
using trial::kStoreGeometry;

static_assert(kv::Store<Paged<F32>> && kv::Store<Paged<Int8, BF16>>);
static_assert(!std::is_copy_constructible_v<Paged<F32>>);
static_assert(!std::is_move_constructible_v<PagePool<F32>>);

std::vector<Index> ids_from(Index first, Index count) {
  std::vector<Index> ids;
  for (Index id = first; id < first + count; ++id) ids.push_back(id);
  return ids;
}

// Sequences of one pool, and the rows that each should hold.
template <class K, class V>
class World {
 public:
  World(Index pages, Index page_tokens) : pool_(kStoreGeometry, pages, page_tokens) {}

  // One operation: `what` is done to sequence `who` with a count or position `much`.
  void apply(int what, unsigned who, Index much) {
    if (sequences_.empty() || (what == 0 && sequences_.size() < 6)) {
      sequences_.push_back({Paged<K, V>(pool_), {}});
      return;
    }
    Sequence& at = sequences_[who % sequences_.size()];
    switch (what) {
      case 1:
      case 2:
      case 3:
        return extend(at, much % 70);
      case 4:
        if (sequences_.size() < 6) {
          std::vector<Index> ids = at.ids;
          sequences_.push_back({at.store.fork(), std::move(ids)});
        }
        return;
      case 5: {
        const Index end = much % (std::ssize(at.ids) + 1);
        at.store.rewind(end);
        at.ids.resize(static_cast<std::size_t>(end));
        return;
      }
      case 6:
        return give_up(at, much % 40);
      default:
        std::swap(at, sequences_.back());
        sequences_.pop_back();
    }
  }

  // Every sequence holds its rows.
  testing::AssertionResult complete() const {
    for (const Sequence& sequence : sequences_) {
      const auto held = holds(sequence.store, sequence.ids);
      if (!held) return held;
    }
    return testing::AssertionSuccess();
  }

  // Every page is counted once.
  testing::AssertionResult counted() const {
    std::set<kv::PageId> used;
    for (const Sequence& sequence : sequences_) {
      used.insert(sequence.store.pages().begin(), sequence.store.pages().end());
    }
    if (pool_.used_pages() != std::ssize(used) || pool_.cached_pages() != 0 ||
        pool_.free_pages() + pool_.used_pages() != pool_.total_pages()) {
      return testing::AssertionFailure()
             << used.size() << " pages are used; the pool counts " << pool_.used_pages()
             << " used, " << pool_.cached_pages() << " cached, " << pool_.free_pages() << " free";
    }
    return testing::AssertionSuccess();
  }

 private:
  struct Sequence {
    Paged<K, V> store;
    std::vector<Index> ids;
  };

  void extend(Sequence& at, Index count) {
    const std::vector<Index> ids = ids_from(next_, count);
    try {
      append(at.store, ids);
    } catch (const CacheFull&) {  // nothing changed, as complete() finds
      return;
    }
    at.ids.insert(at.ids.end(), ids.begin(), ids.end());
    next_ += count;
  }

  // A step that fails between its rows and their publication.
  void give_up(Sequence& at, Index count) {
    try {
      at.store.reserve(count);
    } catch (const CacheFull&) {
      return;
    }
    trial::put_rows(at.store, ids_from(1 << 20, count));
    at.store.rewind(at.store.end());
  }

  PagePool<K, V> pool_;
  std::vector<Sequence> sequences_;
  Index next_ = 0;
};

// Operations are integers, so that a failure shrinks to a few small ones.
RC_GTEST_PROP(PagedSequences, HoldWhatListsHoldUnderAnyOperations, ()) {
  const auto steps =
      *rc::gen::resize(trial::kSlowBuild ? 40 : 300,
                       rc::gen::container<std::vector<std::tuple<int, unsigned, Index>>>(
                           rc::gen::tuple(rc::gen::inRange(0, 8), rc::gen::inRange(0u, 6u),
                                          rc::gen::inRange(Index{0}, Index{400}))));
  const Index page_tokens = *rc::gen::element(Index{16}, Index{32}, Index{48});
  World<Int8, BF16> world(12, page_tokens);
  int turn = 0;
  for (const auto& [what, who, much] : steps) {
    world.apply(what, who, much);
    const auto counted = world.counted();
    if (!counted) RC_FAIL(std::string(counted.message()));
    if (++turn % 16 > 0) continue;
    const auto complete = world.complete();
    if (!complete) RC_FAIL(std::string(complete.message()));
  }
}

TEST(Paged, ForksShareAllPagesAndCopyThePartFilledOneThatIsWritten) {
  PagePool<F32> pool(kStoreGeometry, 8, 16);
  Paged<F32> one(pool);
  const std::vector<Index> ids = ids_from(0, 40);
  append(one, ids);
  EXPECT_EQ(pool.used_pages(), 3);
  Paged<F32> two = one.fork();
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_TRUE(holds(two, ids));
  std::vector<Index> more = ids;
  more.push_back(99);
  append(two, std::span(more).last(1));
  EXPECT_EQ(pool.used_pages(), 4);
  EXPECT_TRUE(holds(one, ids));
  EXPECT_TRUE(holds(two, more));
  append(one, ids_from(200, 1));  // alone with its page by now
  EXPECT_EQ(pool.used_pages(), 4);
  EXPECT_TRUE(holds(two, more));
}

TEST(Paged, ForksOfWholePagesCopyNone) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  Paged<F32> one(pool);
  append(one, ids_from(0, 32));
  Paged<F32> two = one.fork();
  append(two, ids_from(50, 1));
  EXPECT_EQ(pool.used_pages(), 3);
}

TEST(Paged, IsFullBeforeAnythingChanged) {
  PagePool<F32> pool(kStoreGeometry, 3, 16);
  Paged<F32> one(pool);
  const std::vector<Index> ids = ids_from(0, 40);
  append(one, ids);
  Paged<F32> two = one.fork();
  EXPECT_THROW(two.reserve(1), CacheFull);  // the copy of a page does not fit
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_TRUE(holds(two, ids));
  try {
    one.reserve(30);
    FAIL();
  } catch (const CacheFull& error) {
    EXPECT_STREQ(error.what(), "kv::Paged: 30 more tokens take 3 pages, 0 of 3 are free");
  }
  EXPECT_THROW(one.reserve(std::numeric_limits<Index>::max()), std::invalid_argument);
  EXPECT_THROW(one.reserve(-1), std::invalid_argument);
  EXPECT_THROW(one.rewind(41), std::invalid_argument);
  EXPECT_THROW(one.rewind(-1), std::invalid_argument);
  EXPECT_TRUE(holds(one, ids));
}

TEST(Paged, CountsTheCopyOfASharedPageInItsCapacity) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  Paged<F32> one(pool);
  append(one, ids_from(0, 20));
  EXPECT_EQ(one.capacity(), 64);
  Paged<F32> two = one.fork();
  EXPECT_EQ(two.capacity(), 48);
  append(two, ids_from(20, 28));
  EXPECT_EQ(two.capacity(), 48);
  EXPECT_THROW(two.reserve(1), CacheFull);
}

TEST(Paged, IsFullWhereOnlyTheCopyDoesNotFit) {
  PagePool<F32> pool(kStoreGeometry, 3, 16);
  Paged<F32> one(pool);
  append(one, ids_from(0, 20));
  Paged<F32> two = one.fork();
  EXPECT_THROW(two.reserve(20), CacheFull);  // a page more, and a copy; one is free
  EXPECT_EQ(two.pages().size(), 2u);
  EXPECT_EQ(pool.used_pages(), 2);
  EXPECT_TRUE(holds(two, ids_from(0, 20)));
}

TEST(Paged, RefusesPagesThatAreNotAsManyAsItsTokensTake) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  Paged<F32> one(pool);
  append(one, ids_from(0, 20));
  EXPECT_THROW(Paged<F32>(pool, one.pages(), 33), std::invalid_argument);
  EXPECT_THROW(Paged<F32>(pool, one.pages(), 16), std::invalid_argument);
  EXPECT_THROW(Paged<F32>(pool, {}, -1), std::invalid_argument);
  for (const kv::PageId free : {3, 4, -1}) {
    EXPECT_THROW(Paged<F32>(pool, std::vector<kv::PageId>{free}, 5), std::invalid_argument);
  }
  Paged<F32> two(pool, one.pages(), 17);
  EXPECT_TRUE(holds(two, ids_from(0, 17)));
  EXPECT_EQ(pool.used_pages(), 2);
}

TEST(Paged, ReleasesItsPagesWhenItIsDestroyed) {
  PagePool<F32> pool(kStoreGeometry, 4, 32);
  {
    Paged<F32> one(pool);
    append(one, ids_from(0, 33));
    Paged<F32> moved(std::move(one));
    EXPECT_TRUE(holds(moved, ids_from(0, 33)));
    EXPECT_EQ(one.end(), 0);
    append(one, ids_from(5, 3));  // as good as new
    EXPECT_EQ(pool.used_pages(), 3);
    one = std::move(moved);
    EXPECT_TRUE(holds(one, ids_from(0, 33)));
    EXPECT_EQ(moved.end(), 0);
    EXPECT_EQ(pool.used_pages(), 2);
  }
  EXPECT_EQ(pool.free_pages(), 4);
}

// No free page is too far from another: a sequence takes them as they come, and none is moved.
TEST(Paged, TakesPagesWhereverTheyAreFree) {
  constexpr Index kPages = 64;
  PagePool<Int8, BF16> pool(kStoreGeometry, kPages, 16);
  std::vector<Paged<Int8, BF16>> short_ones;
  for (Index n = 0; n < kPages; ++n) {
    short_ones.emplace_back(pool);
    append(short_ones.back(), ids_from(100 * n, 16));
  }
  for (Index n = 0; n < kPages; n += 2) short_ones[static_cast<std::size_t>(n)].rewind(0);
  EXPECT_EQ(pool.free_pages(), kPages / 2);
  Paged<Int8, BF16> one(pool);
  append(one, ids_from(9000, 16 * kPages / 2));
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_TRUE(holds(one, ids_from(9000, 16 * kPages / 2)));
  for (Index n = 1; n < kPages; n += 2) {
    ASSERT_TRUE(holds(short_ones[static_cast<std::size_t>(n)], ids_from(100 * n, 16))) << n;
  }
}

// What a page holds, of all layers and heads.
template <class K, class V>
std::vector<std::byte> bytes_of(const PagePool<K, V>& pool, kv::PageId page) {
  std::vector<std::byte> bytes;
  const Index size = pool.layout().bytes() * pool.page_tokens() / 16;
  trial::for_heads(pool.geometry(), [&](Index layer, Index head) {
    const std::byte* from = pool.page(page, layer, head);
    bytes.insert(bytes.end(), from, from + size);
  });
  return bytes;
}

// Four pages in use, the second of which has three rows and a fork, which goes on in the third.
template <class K, class V>
void expect_one_page_copied(const kv::Geometry& geometry) {
  PagePool<K, V> pool(geometry, 4, 16);
  for (kv::PageId page = 0; page < 4; ++page) {
    ASSERT_EQ(pool.take(), page);
    trial::for_heads(geometry, [&](Index layer, Index head) {
      std::fill_n(pool.page(page, layer, head), pool.layout().bytes(), std::byte(0x11 + page));
    });
  }
  pool.release(1);
  Paged<K, V> origin(pool);
  append(origin, ids_from(0, 3));
  ASSERT_EQ(origin.pages()[0], 1);
  pool.release(2);
  constexpr std::array<kv::PageId, 3> kOthers = {0, 1, 3};
  std::vector<std::vector<std::byte>> before;
  for (const kv::PageId page : kOthers) before.push_back(bytes_of(pool, page));
  Paged<K, V> fork = origin.fork();
  append(fork, ids_from(70, 1));
  ASSERT_EQ(fork.pages()[0], 2);
  for (std::size_t n = 0; n < kOthers.size(); ++n) {
    EXPECT_EQ(bytes_of(pool, kOthers[n]), before[n]) << "page " << kOthers[n];
  }
  EXPECT_TRUE(holds(origin, ids_from(0, 3)));
  std::vector<Index> ids = ids_from(0, 3);
  ids.push_back(70);
  EXPECT_TRUE(holds(fork, ids));
  pool.release(0);
  pool.release(3);
}

TEST(Paged, CopiesOnePageAndTouchesNoOther) {
  for (const kv::Geometry& geometry : {kStoreGeometry, trial::kWideGeometry}) {
    expect_one_page_copied<F32, F32>(geometry);
    expect_one_page_copied<Int8, BF16>(geometry);
    expect_one_page_copied<codec::Int4, codec::Int4>(geometry);
    expect_one_page_copied<codec::F16, codec::Int4>(geometry);
  }
}

TEST(Paged, CountsItsBytesInPages) {
  PagePool<Int8, BF16> pool(kStoreGeometry, 5, 48);
  EXPECT_EQ(pool.bytes(), (kStoreGeometry.bytes<Int8, BF16>(5 * 48)));
  EXPECT_EQ(pool.bytes(), (PagePool<Int8, BF16>::bytes_for(kStoreGeometry, 5, 48)));
  EXPECT_EQ(pool.page_bytes() * 5, pool.bytes());
  Paged<Int8, BF16> one(pool);
  EXPECT_EQ(one.bytes(), 0);
  EXPECT_EQ(one.capacity(), 240);
  append(one, ids_from(0, 49));
  EXPECT_EQ(one.bytes(), 2 * pool.page_bytes());
  EXPECT_EQ(one.capacity(), 240);
}

}  // namespace
