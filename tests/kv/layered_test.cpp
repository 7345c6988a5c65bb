// tests/kv/layered_test.cpp - two stores as one, against a list: each layer holds its own rows,
// and if one store refuses, both are unchanged.
#include <decant/kv/layered.hpp>

#include "kv/stores.hpp"

#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F32;
using codec::Int8;
using trial::append;
using trial::holds;
using trial::kStoreGeometry;

template <class C>
using RingAndAll = kv::Layered<kv::Ring<C>, kv::Contiguous<C>>;
using RingAndPages = kv::Layered<kv::Ring<F32>, kv::Paged<F32>>;
static_assert(kv::Store<RingAndAll<Int8>> && kv::Store<RingAndPages>);

constexpr std::array<Position, 2> kWindows = {0, 20};  // the second layer looks back 20 tokens
constexpr kv::Geometry kPartGeometry = {.layers = 1, .heads = 3, .key_dim = 7, .value_dim = 18};

RingAndAll<BF16> made(Index capacity, Index chunk) {
  return {kWindows, kv::Ring<BF16>(kPartGeometry, 20, chunk),
          kv::Contiguous<BF16>(kPartGeometry, capacity)};
}

std::vector<Index> next_ids(Index& next, Index count) {
  std::vector<Index> ids;
  for (Index left = count; left > 0; --left) ids.push_back(next++);
  return ids;
}

TEST(Layered, HoldsTheRowsOfEachLayerUnderAnyOperations) {
  std::mt19937 random(5);
  const auto below = [&](Index n) {
    return static_cast<Index>(random() % static_cast<unsigned>(n));
  };
  auto store = made(600, 9);
  std::vector<Index> ids;
  Index next = 0;
  for (int operation = 0; operation < (trial::kSlowBuild ? 100 : 300); ++operation) {
    if (below(4) > 0 && store.end() < 590) {
      const std::vector<Index> more = next_ids(next, below(9) + 1);
      append(store, more);
      ids.insert(ids.end(), more.begin(), more.end());
    } else {
      const Position back = store.earliest_rewind();
      store.rewind(back + below(store.end() - back + 1));
      ids.resize(static_cast<std::size_t>(store.end()));
    }
    ASSERT_TRUE(holds(store, ids));
  }
  ASSERT_GT(store.begin(1), 0);
  trial::StoredRow row = trial::row_of(ids[0], 0, 2);
  const trial::StoredRow first = row;
  store.get(0, 2, 0, row.key, row.value);  // of the layer that holds all
  EXPECT_EQ(row.key, trial::stored<BF16>(first.key));
  EXPECT_THROW(store.get(1, 2, 0, row.key, row.value), std::invalid_argument);
}

TEST(Layered, CostsARingAndTheRowsOfItsOtherLayers) {
  const auto store = made(600, 9);
  EXPECT_EQ(store.bytes(),
            kv::Ring<BF16>::bytes_for(kPartGeometry, 20, 9) + kPartGeometry.bytes<BF16>(600));
  EXPECT_EQ(store.geometry(), kStoreGeometry);
  EXPECT_EQ(store.window(0), 0);
  EXPECT_EQ(store.window(1), 20);
  EXPECT_EQ(store.chunk(), 9);
  EXPECT_EQ(store.capacity(), 600);
}

TEST(Layered, HandsOutThePanelSpansOfTheStoreThatHasTheLayer) {
  auto store = made(600, 9);
  Index next = 0;
  for (int chunk = 0; chunk < 30; ++chunk) append(store, next_ids(next, 9));
  for (Index layer : {0, 1}) {
    const auto spans = store.panel_spans(layer, 2);
    const Index held = layer == 0 ? 0 : store.begin(1);
    ASSERT_EQ(spans[0].first, held);
    for (Position at = held; at < store.end(); at += 16) {
      const kv::PanelSpan span = at < spans[0].end() ? spans[0] : spans[1];
      EXPECT_EQ(span.panel(at), layer == 0 ? store.global().panel_spans(0, 2)[0].panel(at)
                                           : (at < store.local().panel_spans(0, 2)[0].end()
                                                  ? store.local().panel_spans(0, 2)[0].panel(at)
                                                  : store.local().panel_spans(0, 2)[1].panel(at)));
    }
  }
}

TEST(Layered, IsUnchangedIfOneStoreRefuses) {
  kv::PagePool<F32> pool(kPartGeometry, 4, 16);
  RingAndPages store(kWindows, kv::Ring<F32>(kPartGeometry, 20, 16), kv::Paged<F32>(pool));
  Index next = 0;
  const std::vector<Index> ids = next_ids(next, 16);
  append(store, ids);
  EXPECT_THROW(store.reserve(17), CacheFull);  // a chunk of 16; two pages were had by then
  EXPECT_TRUE(holds(store, ids));
  EXPECT_EQ(pool.free_pages(), 3);
  kv::Paged<F32> other(pool);
  other.reserve(48);
  EXPECT_THROW(store.reserve(1), CacheFull);  // no page
  EXPECT_TRUE(holds(store, ids));
  EXPECT_EQ(store.local().end(), 16);

  auto ring = made(600, 9);
  next = 0;
  for (int chunk = 0; chunk < 30; ++chunk) append(ring, next_ids(next, 9));
  const Position back = ring.earliest_rewind();
  ASSERT_GT(back, 0);
  EXPECT_THROW(ring.rewind(back - 1), CannotRewind);
  EXPECT_THROW(ring.rewind(271), std::invalid_argument);
  EXPECT_EQ(ring.local().end(), 270);
  EXPECT_EQ(ring.global().end(), 270);
  ring.rewind(0);
  EXPECT_TRUE(holds(ring, std::vector<Index>{}));
}

TEST(Layered, RefusesPartsThatDoNotFit) {
  const std::array<Position, 3> three = {0, 20, 20};
  EXPECT_THROW(RingAndAll<F32>(three, kv::Ring<F32>(kPartGeometry, 20, 9),
                               kv::Contiguous<F32>(kPartGeometry, 40)),
               std::invalid_argument);
  EXPECT_THROW(RingAndAll<F32>(std::array<Position, 2>{0, 0}, kv::Ring<F32>(kPartGeometry, 20, 9),
                               kv::Contiguous<F32>(kPartGeometry, 40)),
               std::invalid_argument);
  EXPECT_THROW(RingAndAll<F32>(kWindows, kv::Ring<F32>({1, 3, 8, 18}, 20, 9),
                               kv::Contiguous<F32>(kPartGeometry, 40)),
               std::invalid_argument);
  using TwoRings = kv::Layered<kv::Ring<F32>, kv::Ring<F32>>;
  EXPECT_THROW(
      TwoRings(kWindows, kv::Ring<F32>(kPartGeometry, 20, 9), kv::Ring<F32>(kPartGeometry, 40, 9)),
      std::invalid_argument);
  kv::Contiguous<F32> ahead(kPartGeometry, 40);
  ahead.reserve(1);
  ahead.publish(1);
  EXPECT_THROW(RingAndAll<F32>(kWindows, kv::Ring<F32>(kPartGeometry, 20, 9), std::move(ahead)),
               std::invalid_argument);
}

}  // namespace
