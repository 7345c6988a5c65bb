// tests/kv/debug_test.cpp - debug stores reveal reads that are too early, too late or out of
// bounds.
#include <decant/core/debug.hpp>

#include "kv/stores.hpp"

#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <thread>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using codec::FP8E4M3;
using codec::FP8E5M2;
using codec::Int4;
using codec::Int8;
using trial::kStoreGeometry;

template <class C>
class DebugStores : public testing::Test {
 protected:
  void SetUp() override {
    if (!kDebugStores) GTEST_SKIP() << "built without DECANT_DEBUG_STORES";
  }

  // Whether all elements of the rows from `first` on are NaN.
  template <kv::Store S>
  static bool spoiled(const S& store, Position first) {
    bool all = true;
    for (Position at = first; at < store.end(); ++at) {
      trial::for_heads([&](Index layer, Index head) {
        trial::StoredRow row = trial::row_of(0, layer, head);
        store.get(layer, head, at, row.key, row.value);
        for (float number : row.key) all = all && std::isnan(number);
        for (float number : row.value) all = all && std::isnan(number);
      });
    }
    return all;
  }
  static std::vector<Index> ids(Index count) {
    std::vector<Index> result(static_cast<std::size_t>(count));
    std::iota(result.begin(), result.end(), Index{0});
    return result;
  }
  // Slots that are never put, of a fresh store, after rows, and where rows were dropped.
  template <kv::Store S>
  static void expect_spoiled(S& store) {
    store.reserve(3);
    store.publish(3);
    EXPECT_TRUE(spoiled(store, 0));
    store.rewind(0);
    trial::append(store, ids(20));
    EXPECT_FALSE(spoiled(store, 0));
    store.rewind(9);
    store.reserve(8);
    store.publish(8);
    EXPECT_TRUE(spoiled(store, 9));
    store.rewind(9);
    EXPECT_TRUE(trial::holds(store, ids(9)));
  }
};
using DebugCodecs = testing::Types<F32, BF16, F16, Int8, Int4, FP8E4M3, FP8E5M2>;
TYPED_TEST_SUITE(DebugStores, DebugCodecs);

TYPED_TEST(DebugStores, HoldNaNWhereNoRowWasPut) {
  kv::Contiguous<TypeParam> contiguous(kStoreGeometry, 40);
  this->expect_spoiled(contiguous);
  kv::PagePool<TypeParam> pool(kStoreGeometry, 4, 16);
  kv::Paged<TypeParam> paged(pool);
  this->expect_spoiled(paged);
  kv::Ring<TypeParam> ring(kStoreGeometry, 30, 20);
  this->expect_spoiled(ring);
}

TYPED_TEST(DebugStores, HoldNaNWhereARingWrapsAround) {
  kv::Ring<TypeParam> ring(kStoreGeometry, 20, 4);
  for (Index turn = 0; turn < 30; ++turn) trial::append(ring, this->ids(4));
  ring.reserve(4);
  ring.publish(4);
  EXPECT_TRUE(this->spoiled(ring, ring.end() - 4));
  EXPECT_FALSE(this->spoiled(ring, ring.end() - 5));
}

TYPED_TEST(DebugStores, LeaveSharedPagesAlone) {
  kv::PagePool<TypeParam> pool(kStoreGeometry, 4, 16);
  kv::Paged<TypeParam> store(pool);
  trial::append(store, this->ids(20));
  kv::Paged<TypeParam> fork = store.fork();
  store.rewind(18);
  EXPECT_TRUE(trial::holds(fork, this->ids(20)));
  store.reserve(1);
  EXPECT_TRUE(trial::holds(fork, this->ids(20)));
}

TYPED_TEST(DebugStores, EndTheProgramAfterAWriteBehindAPage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        kv::PagePool<TypeParam> pool(kStoreGeometry, 4, 16);
        const kv::PageId page = pool.take();
        pool.page(page, 1, 1)[pool.layout().bytes()] = std::byte{1};
        pool.release(page);
      },
      "written behind the end of a page");
}

// Stands for a second thread that enters while the first is inside.
TEST(DebugSoleUse, EndsTheProgramIfASecondThreadEnters) {
  if (!kDebugStores) GTEST_SKIP() << "built without DECANT_DEBUG_STORES";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  debug::SoleUse use;
  {
    const debug::SoleUse::Visit first(use);
  }
  const debug::SoleUse::Visit second(use);
  EXPECT_DEATH(debug::SoleUse::Visit third(use), "two threads change one pool");
}

// Two threads that take pages of one pool are bound to meet.
TEST(DebugSoleUse, IsCheckedByAPool) {
  if (!kDebugStores) GTEST_SKIP() << "built without DECANT_DEBUG_STORES";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        kv::PagePool<F32> pool(kStoreGeometry, 4, 16);
        const auto churn = [&pool] {
          while (true) pool.release(pool.take());
        };
        std::thread other(churn);
        churn();
      },
      "two threads change one pool");
}

#if defined(DECANT_ADDRESS_SANITIZER)
TYPED_TEST(DebugStores, AreRefusedByTheSanitizerWhereAPageIsFree) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  kv::PagePool<TypeParam> pool(kStoreGeometry, 4, 16);
  const kv::PageId page = pool.take();
  volatile std::byte* cells = pool.page(page, 0, 2);
  cells[5] = std::byte{7};
  pool.release(page);
  EXPECT_DEATH(static_cast<void>(cells[5]), "use-after-poison");
}
#endif

}  // namespace
