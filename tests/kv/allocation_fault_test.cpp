// tests/kv/allocation_fault_test.cpp - if any allocation fails, stores, pools and prefix trees
// are unchanged, and the operation succeeds when it is tried again.
#include "kv/stores.hpp"
#include "law/allocations.hpp"

#include <decant/kv/contiguous.hpp>
#include <decant/kv/interchange.hpp>
#include <decant/kv/layered.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using namespace decant;
using codec::Int8;
using trial::fail_each_allocation;
using trial::kStoreGeometry;
using ScaledPool = kv::PagePool<Int8>;
using ScaledPaged = kv::Paged<Int8>;

std::vector<Index> ids_up_to(Index count) {
  std::vector<Index> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), Index{0});
  return ids;
}

TEST(AllocationFaults, LeaveNothingOfAStoreThatIsNotMade) {
  std::optional<kv::Contiguous<Int8>> contiguous;
  EXPECT_GE(fail_each_allocation([&] { contiguous.emplace(kStoreGeometry, 20); },
                                 [&] { ASSERT_FALSE(contiguous); }),
            1);
  std::optional<ScaledPool> pool;
  EXPECT_GE(fail_each_allocation([&] { pool.emplace(kStoreGeometry, 4, 16); },
                                 [&] { ASSERT_FALSE(pool); }),
            3);
  const kv::Geometry one = {.layers = 1, .heads = 3, .key_dim = 7, .value_dim = 18};
  std::optional<kv::Layered<kv::Ring<Int8>, kv::Contiguous<Int8>>> layered;
  EXPECT_GE(fail_each_allocation(
                [&] {
                  layered.emplace(std::array<Position, 2>{0, 20}, kv::Ring<Int8>(one, 20, 4),
                                  kv::Contiguous<Int8>(one, 20));
                },
                [&] { ASSERT_FALSE(layered); }),
            3);
}

TEST(AllocationFaults, LeaveSequencesAndTheirPoolAsTheyWere) {
  ScaledPool pool(kStoreGeometry, 20, 16);
  ScaledPaged store(pool);
  const std::vector<Index> ids = ids_up_to(40);
  trial::append(store, ids);
  ScaledPaged other(pool);
  const auto same = [&] {
    ASSERT_TRUE(trial::holds(store, ids));
    ASSERT_EQ(other.end(), 0);
    ASSERT_EQ(pool.used_pages(), 3);
    ASSERT_EQ(pool.free_pages(), 17);
  };
  EXPECT_GE(fail_each_allocation([&] { other = store.fork(); }, same), 1);
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_TRUE(trial::holds(other, ids));
  const auto shared = [&] {
    ASSERT_TRUE(trial::holds(store, ids));
    ASSERT_TRUE(trial::holds(other, ids));
    ASSERT_EQ(pool.used_pages(), 3);
    ASSERT_EQ(pool.cached_pages(), 0);
  };
  EXPECT_GE(fail_each_allocation([&] { other.reserve(200); }, shared), 1);
  EXPECT_EQ(pool.used_pages(), 3 + 13);
}

TEST(AllocationFaults, LeaveATreeWhole) {
  ScaledPool pool(kStoreGeometry, 20, 16);
  kv::PrefixTree<Int8> tree(pool);
  ScaledPaged store(pool);
  trial::append(store, ids_up_to(100));
  std::vector<Token> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto whole = [&] {
    ASSERT_TRUE(trial::holds(store, ids_up_to(100)));
    ASSERT_EQ(pool.used_pages(), 7);
    ASSERT_EQ(pool.cached_pages(), 0);
    ASSERT_EQ(tree.matched({}, tokens), tree.pages() * 16);
  };
  EXPECT_GE(fail_each_allocation([&] { tree.insert({}, tokens, store); }, whole), 6);
  EXPECT_EQ(tree.matched({}, tokens), 96);
  const kv::PrefixStatistics before = tree.statistics();
  std::optional<ScaledPaged> found;
  EXPECT_GE(fail_each_allocation([&] { found.emplace(tree.match({}, tokens)); },
                                 [&] {
                                   ASSERT_FALSE(found);
                                   ASSERT_EQ(tree.statistics().prompts, before.prompts);
                                   ASSERT_EQ(pool.used_pages(), 7);
                                 }),
            1);
  EXPECT_EQ(found->end(), 96);
}

}  // namespace
