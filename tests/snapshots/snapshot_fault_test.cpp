// tests/snapshots/snapshot_fault_test.cpp - memory that runs out while a sequence is saved or
// restored.
#include "files/written_files.hpp"
#include "kv/stores.hpp"
#include "law/allocations.hpp"

#include <decant/kv/paged.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;

TEST(SnapshotFaults, LeaveTheOldFileAndAnEmptyStore) {
  const trial::Folder folder;
  const auto path = folder.write("saved", "old");
  kv::PagePool<BF16> pool(trial::kStoreGeometry, 10, 16);
  kv::Paged<BF16> store(pool);
  std::vector<Index> ids(50);
  std::iota(ids.begin(), ids.end(), Index{0});
  trial::append(store, ids);
  const std::vector<Token> tokens(50, 7);
  EXPECT_GT(trial::fail_each_allocation([&] { snapshots::save_snapshot(path, store, tokens, "m"); },
                                        [&] {
                                          ASSERT_EQ(trial::read_file(path), "old");
                                          ASSERT_FALSE(exists(folder.path() / "saved.part"));
                                        }),
            50);
  const snapshots::Snapshot snapshot = snapshots::Snapshot::open(path);
  kv::Paged<BF16> other(pool);
  EXPECT_GT(trial::fail_each_allocation([&] { snapshot.restore(other, "m"); },
                                        [&] {
                                          ASSERT_EQ(other.end(), 0);
                                          ASSERT_EQ(pool.used_pages(), 4);
                                        }),
            10);
  EXPECT_TRUE(trial::holds(other, ids));
}

}  // namespace
