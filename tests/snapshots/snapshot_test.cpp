// tests/snapshots/snapshot_test.cpp - keys and values in a file: the same bits come back into any
// store, and nothing comes back from a file that is not what it claims.
#include <decant/snapshots/snapshot.hpp>

#include "files/written_files.hpp"
#include "kv/stores.hpp"

#include <decant/kv/contiguous.hpp>
#include <decant/kv/layered.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
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
using trial::Formats;
using trial::kStoreGeometry;

std::vector<Token> snapshot_tokens(Index count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), Token{100});
  return tokens;
}

// Appends `count` rows, a chunk of the store's at a time.
template <kv::Store S>
void fill(S& store, Index count) {
  std::vector<Index> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), Index{0});
  while (store.end() < count) {
    const Index more = std::min(store.chunk(), count - store.end());
    trial::append(store, std::span<const Index>(ids).subspan(static_cast<std::size_t>(store.end()),
                                                             static_cast<std::size_t>(more)));
  }
}

// Whether two stores hold the same cells and scales, from where the second begins.
template <kv::Store A, kv::Store B>
testing::AssertionResult same_cells(const A& a, const B& b) {
  if (a.end() != b.end()) return testing::AssertionFailure() << a.end() << ", then " << b.end();
  for (Index layer = 0; layer < a.geometry().layers; ++layer) {
    const auto from = static_cast<std::size_t>(b.begin(layer) - a.begin(layer));
    const auto same = [from](const auto& x, const auto& y) {
      const auto skipped = [&](Index each) { return from * static_cast<std::size_t>(each); };
      return std::ranges::equal(std::as_bytes(std::span(x.cells).subspan(skipped(x.size.cells))),
                                std::as_bytes(std::span(y.cells))) &&
             std::ranges::equal(std::as_bytes(std::span(x.scales).subspan(skipped(x.size.scales))),
                                std::as_bytes(std::span(y.scales)));
    };
    for (Index head = 0; head < a.geometry().heads; ++head) {
      const auto one = snapshots::detail::rows_of(a, layer, head);
      const auto other = snapshots::detail::rows_of(b, layer, head);
      if (!same(one.keys, other.keys) || !same(one.values, other.values)) {
        return testing::AssertionFailure() << "layer " << layer << ", head " << head;
      }
    }
  }
  return testing::AssertionSuccess();
}

template <class KeyAndValueFormats>
class Snapshots : public testing::Test {};
using SnapshotFormats =
    testing::Types<Formats<F32, F32>, Formats<BF16, BF16>, Formats<F16, F16>, Formats<Int8, Int8>,
                   Formats<FP8E4M3, FP8E4M3>, Formats<FP8E5M2, FP8E5M2>, Formats<Int8, F16>,
                   Formats<BF16, Int8>, Formats<Int4, Int4>, Formats<F16, Int4>,
                   Formats<Int4, Int8>>;
TYPED_TEST_SUITE(Snapshots, SnapshotFormats);

// A sequence of `count` tokens, saved and brought back to stores of every kind.
template <codec::Codec K, codec::Codec V>
void expect_every_cell_back(const kv::Geometry& geometry, Index count) {
  const trial::Folder folder;
  const auto path = folder.path() / "sequence.decant";
  kv::Contiguous<K, V> saved(geometry, 80);
  fill(saved, count);
  snapshots::save_snapshot(path, saved, snapshot_tokens(count), "a model");
  const snapshots::Snapshot snapshot = snapshots::Snapshot::open(path);
  EXPECT_TRUE(std::ranges::equal(snapshot.tokens(), snapshot_tokens(count)));
  EXPECT_EQ(snapshot.model(), "a model");
  kv::Contiguous<K, V> contiguous(geometry, 90);
  snapshot.restore(contiguous, "a model");
  EXPECT_EQ(contiguous.capacity(), 90);
  EXPECT_TRUE(same_cells(saved, contiguous));
  kv::PagePool<K, V> pool(geometry, 3, 48);
  kv::Paged<K, V> paged(pool);
  snapshot.restore(paged, "a model");
  EXPECT_TRUE(same_cells(saved, paged));
  kv::Ring<K, V> ring(geometry, 20, 9);
  snapshot.restore(ring, "a model");
  EXPECT_TRUE(same_cells(saved, ring));
  EXPECT_LE(ring.begin(0), std::max<Position>(0, count - 19));
  std::vector<Index> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), Index{0});
  EXPECT_TRUE(trial::holds(contiguous, ids));
}

TYPED_TEST(Snapshots, BringBackEveryCellToAnyStore) {
  for (const kv::Geometry& geometry : {kStoreGeometry, trial::kWideGeometry}) {
    for (Index count : {0, 1, 16, 77}) {
      expect_every_cell_back<typename TypeParam::Keys, typename TypeParam::Values>(geometry, count);
    }
  }
}

TYPED_TEST(Snapshots, OfWhatARingHoldsFillARing) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const trial::Folder folder;
  const auto path = folder.path() / "ring.decant";
  kv::Ring<K, V> saved(kStoreGeometry, 20, 9);
  fill(saved, 333);
  ASSERT_GT(saved.begin(0), 280);
  snapshots::save_snapshot(path, saved, snapshot_tokens(333), "m");
  const snapshots::Snapshot snapshot = snapshots::Snapshot::open(path);
  EXPECT_EQ(snapshot.begin(1), saved.begin(1));
  kv::Ring<K, V> same(kStoreGeometry, 20, 40);  // with room for more than the file has
  snapshot.restore(same, "m");
  EXPECT_EQ(same.begin(0), saved.begin(0));
  EXPECT_TRUE(same_cells(saved, same));
  EXPECT_EQ(same.earliest_rewind(), saved.begin(0) + 19);
  kv::Ring<K, V> wider(kStoreGeometry, 200, 9);
  EXPECT_THROW(snapshot.restore(wider, "m"), std::invalid_argument);
  kv::Contiguous<K, V> all(kStoreGeometry, 400);
  EXPECT_THROW(snapshot.restore(all, "m"), std::invalid_argument);
  EXPECT_EQ(all.end(), 0);
}

// The first row behind what is restored sees a whole window of it, or none is restored.
TYPED_TEST(Snapshots, OfARingFillWhatTheirWindowReaches) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const trial::Folder folder;
  const auto path = folder.path() / "ring.decant";
  for (Index sinks : {0, 5}) {
    kv::Ring<K, V> saved(kStoreGeometry, 33, 1, sinks);
    fill(saved, 120);
    snapshots::save_snapshot(path, saved, snapshot_tokens(120), "m");
    const snapshots::Snapshot snapshot = snapshots::Snapshot::open(path);
    kv::Ring<K, V> ring(kStoreGeometry, 33, 1, sinks);
    const Position fewest = snapshot.fewest(ring);
    EXPECT_EQ(fewest, saved.begin(0) + 32);
    EXPECT_LT(fewest, 120);
    EXPECT_THROW(snapshot.restore(ring, "m", fewest - 1), std::invalid_argument);
    EXPECT_EQ(ring.end(), 0);
    snapshot.restore(ring, "m", fewest);
    EXPECT_EQ(ring.end(), fewest);
    kv::Contiguous<K, V> all(kStoreGeometry, 120);
    EXPECT_EQ(snapshot.fewest(all), 121);  // not even all its tokens
  }
}

TYPED_TEST(Snapshots, OfARingWithSinkTokensRestoreThem) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const trial::Folder folder;
  const auto path = folder.path() / "ring.decant";
  kv::Ring<K, V> saved(kStoreGeometry, 20, 9, 5);
  fill(saved, 333);
  snapshots::save_snapshot(path, saved, snapshot_tokens(333), "m");
  const snapshots::Snapshot snapshot = snapshots::Snapshot::open(path);
  kv::Ring<K, V> same(kStoreGeometry, 20, 40, 5);
  snapshot.restore(same, "m");
  EXPECT_TRUE(same_cells(saved, same));
  kv::Ring<K, V> fewer(kStoreGeometry, 20, 9, 2);
  snapshot.restore(fewer, "m");
  EXPECT_EQ(fewer.begin(0), saved.begin(0));
  kv::Ring<K, V> more(kStoreGeometry, 20, 9, 6);
  EXPECT_THROW(snapshot.restore(more, "m"), std::invalid_argument);
  kv::Contiguous<K, V> all(kStoreGeometry, 400);
  EXPECT_THROW(snapshot.restore(all, "m"), std::invalid_argument);
}

TEST(Snapshot, OfLayersOfTwoKindsBringsBackBoth) {
  const kv::Geometry one = {.layers = 1, .heads = 3, .key_dim = 7, .value_dim = 18};
  const std::array<Position, 2> windows = {0, 20};
  const auto made = [&](Index chunk) {
    return kv::Layered(windows, kv::Ring<Int8>(one, 20, chunk), kv::Contiguous<Int8>(one, 200));
  };
  const trial::Folder folder;
  auto saved = made(9);
  fill(saved, 150);
  snapshots::save_snapshot(folder.path() / "two", saved, snapshot_tokens(150), "m");
  auto restored = made(30);
  snapshots::Snapshot::open(folder.path() / "two").restore(restored, "m");
  EXPECT_EQ(restored.begin(0), 0);
  EXPECT_EQ(restored.begin(1), saved.begin(1));
  EXPECT_TRUE(same_cells(saved, restored));
}

class SavedSequence : public testing::Test {
 protected:
  SavedSequence() {
    kv::Contiguous<Int8, BF16> store(kStoreGeometry, 40);
    fill(store, 33);
    snapshots::save_snapshot(path(), store, snapshot_tokens(33), "a model");
    bytes_ = trial::read_file(path());
  }
  std::filesystem::path path() const { return folder_.path() / "saved"; }
  snapshots::Snapshot parsed() const {
    return snapshots::Snapshot::parse(trial::bytes_of(bytes_), "saved");
  }

  // What restore() says to a store that is not like the one saved, and stays empty.
  template <kv::Store S>
  std::string refusal(S& store, std::string_view model = "a model") const {
    try {
      parsed().restore(store, model);
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(store.end(), 0);
      return error.what();
    }
    return "none";
  }

  trial::Folder folder_;
  std::string bytes_;
};

TEST_F(SavedSequence, RefusesAStoreByTheFieldThatDiffers) {
  kv::Contiguous<Int8, BF16> right(kStoreGeometry, 40);
  EXPECT_EQ(refusal(right, "another"),
            "saved: was computed by other weights or another configuration, a model, not another");
  kv::Contiguous<Int8> values(kStoreGeometry, 40);
  EXPECT_EQ(refusal(values), "saved: has values in bf16, not int8");
  kv::Contiguous<BF16> keys(kStoreGeometry, 40);
  EXPECT_EQ(refusal(keys), "saved: has keys in int8, not bf16");
  kv::Geometry geometry = kStoreGeometry;
  geometry.heads = 4;
  kv::Contiguous<Int8, BF16> heads(geometry, 40);
  EXPECT_EQ(refusal(heads),
            "saved: has 2 layers, 3 heads, keys of 7, values of 18, not 2 layers, 4 heads, keys of "
            "7, values of 18");
  kv::Contiguous<Int8, BF16> small(kStoreGeometry, 32);
  EXPECT_THROW(parsed().restore(small, "a model"), CacheFull);
  EXPECT_EQ(small.end(), 0);
  parsed().restore(right, "a model");
  EXPECT_THROW(parsed().restore(right, "a model"), std::invalid_argument);  // it is not empty now
  EXPECT_EQ(right.end(), 33);
}

TEST_F(SavedSequence, LeavesAPoolAsItWasWhereItIsTooSmall) {
  kv::PagePool<Int8, BF16> pool(kStoreGeometry, 3, 16);
  kv::Paged<Int8, BF16> other(pool);
  other.reserve(1);
  kv::Paged<Int8, BF16> store(pool);
  EXPECT_THROW(parsed().restore(store, "a model"), CacheFull);
  EXPECT_EQ(pool.free_pages(), 2);
}

TEST_F(SavedSequence, WithAnyOneByteChangedIsRefused) {
  for (std::size_t at = 0; at < bytes_.size(); at += at < 900 ? 1 : 37) {
    std::string changed = bytes_;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_THROW(snapshots::Snapshot::parse(trial::bytes_of(changed), "x"), FormatError)
        << "byte " << at;
  }
}

TEST_F(SavedSequence, CutAnywhereIsRefused) {
  for (std::size_t size = 0; size < bytes_.size(); size += size < 900 ? 1 : 61) {
    const auto cut = trial::bytes_of(std::string_view(bytes_).substr(0, size));
    EXPECT_THROW(snapshots::Snapshot::parse(cut, "x"), FormatError) << size << " bytes";
  }
}

TEST_F(SavedSequence, StaysWhereANewOneCannotBeWritten) {
  kv::Contiguous<Int8, BF16> store(kStoreGeometry, 40);
  EXPECT_THROW(snapshots::save_snapshot(path(), store, snapshot_tokens(5), "m"),
               std::invalid_argument);
  EXPECT_THROW(snapshots::save_snapshot(path(), store, {}, "\xFF"), std::invalid_argument);
  EXPECT_THROW(snapshots::save_snapshot(folder_.path() / "no" / "such", store, {}, "m"),
               std::system_error);
  EXPECT_THROW(snapshots::save_snapshot(folder_.path(), store, {}, "m"), std::system_error);
  EXPECT_EQ(trial::read_file(path()), bytes_);
}

}  // namespace
