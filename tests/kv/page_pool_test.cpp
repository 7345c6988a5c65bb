// tests/kv/page_pool_test.cpp - pages that are taken, shared, cached and released.
#include <decant/kv/page_pool.hpp>

#include "kv/stores.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using namespace decant;
using codec::F32;
using kv::PageId;
using kv::PagePool;
using trial::kStoreGeometry;

void expect_counts(const PagePool<F32>& pool, Index used, Index cached, Index free) {
  EXPECT_EQ(pool.used_pages(), used);
  EXPECT_EQ(pool.cached_pages(), cached);
  EXPECT_EQ(pool.free_pages(), free);
  EXPECT_EQ(used + cached + free, pool.total_pages());
}

TEST(PagePool, CountsUsersOfAPage) {
  PagePool<F32> pool(kStoreGeometry, 3, 16);
  expect_counts(pool, 0, 0, 3);
  const PageId one = pool.take();
  const PageId two = pool.take();
  EXPECT_NE(one, two);
  EXPECT_FALSE(pool.shared(one));
  pool.retain(one);
  EXPECT_TRUE(pool.shared(one));
  expect_counts(pool, 2, 0, 1);
  pool.release(one);
  expect_counts(pool, 2, 0, 1);
  pool.release(one);
  pool.release(two);
  expect_counts(pool, 0, 0, 3);
}

TEST(PagePool, CachesAPageWithoutUsers) {
  PagePool<F32> pool(kStoreGeometry, 2, 16);
  const PageId page = pool.take();
  pool.cache(page);
  EXPECT_TRUE(pool.shared(page));  // a cached page is not written
  expect_counts(pool, 1, 0, 1);
  pool.release(page);
  expect_counts(pool, 0, 1, 1);
  pool.retain(page);
  expect_counts(pool, 1, 0, 1);
  pool.drop(page);
  expect_counts(pool, 1, 0, 1);
  EXPECT_FALSE(pool.shared(page));
  pool.release(page);
  expect_counts(pool, 0, 0, 2);
}

TEST(PagePool, DropsACachedPageToTheFreeOnes) {
  PagePool<F32> pool(kStoreGeometry, 2, 16);
  const PageId page = pool.take();
  pool.cache(page);
  pool.release(page);
  pool.drop(page);
  expect_counts(pool, 0, 0, 2);
}

TEST(PagePool, IsFullWhenNoPageIsFree) {
  PagePool<F32> pool(kStoreGeometry, 1, 16);
  const PageId page = pool.take();
  EXPECT_THROW(pool.take(), CacheFull);
  pool.cache(page);
  pool.release(page);
  EXPECT_THROW(pool.take(), CacheFull);  // only the cache drops a cached page
  expect_counts(pool, 0, 1, 0);
}

TEST(PagePool, RefusesInvalidSizes) {
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, 0, 16), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, -1, 16), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, 1, 0), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, 1, 24), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, 1, -16), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>({1, 0, 4, 4}, 1, 16), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, Index{1} << 40, 16), std::invalid_argument);
  EXPECT_THROW(PagePool<F32>(kStoreGeometry, 1 << 30, Index{1} << 40), std::invalid_argument);
}

}  // namespace
