// tests/kv/ring_test.cpp - a ring against a list: rows of the window are held, others refused.
#include <decant/kv/ring.hpp>

#include "kv/stores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F32;
using codec::Int8;
using kv::Ring;
using trial::append;
using trial::holds;
using trial::kStoreGeometry;

static_assert(kv::Store<Ring<F32>> && kv::Store<Ring<Int8, BF16>>);

TEST(Ring, HoldsAWindowBehindEveryTokenOfAChunk) {
  std::mt19937 random(3);
  const auto below = [&](Index n) {
    return static_cast<Index>(random() % static_cast<unsigned>(n));
  };
  for (Index window : {1, 2, 15, 16, 17, 33, 100}) {
    for (Index chunk : {1, 2, 16, 17, 40}) {
      Ring<Int8, BF16> ring(kStoreGeometry, window, chunk);
      std::vector<Index> ids;
      Index next = 0;
      for (int operation = 0; operation < 40; ++operation) {
        if (below(4) > 0) {
          std::vector<Index> more;
          for (Index left = below(chunk) + 1; left > 0; --left) more.push_back(next++);
          ring.reserve(std::ssize(more));
          ASSERT_LE(ring.begin(0), std::max<Position>(0, ring.end() - window + 1));
          append(ring, more);
          ids.insert(ids.end(), more.begin(), more.end());
        } else {
          const Position back = ring.earliest_rewind();
          ASSERT_LE(back, ring.end());
          if (back > 1) {
            EXPECT_THROW(ring.rewind(back - 1), CannotRewind);
          }
          ring.rewind(back + below(ring.end() - back + 1));
          ids.resize(static_cast<std::size_t>(ring.end()));
        }
        ASSERT_TRUE(holds(ring, ids)) << "window " << window << ", chunk " << chunk;
      }
    }
  }
}

TEST(Ring, DoesNotGrow) {
  Ring<F32> ring(kStoreGeometry, 100, 10);
  const Index bytes = ring.bytes();
  EXPECT_EQ(bytes, kStoreGeometry.bytes<F32>(8 * 16));  // 109 tokens touch at most 8 panels
  std::vector<Index> ids;
  for (Index id = 0; id < 5000; id += 10) {
    std::vector<Index> more;
    for (Index i = 0; i < 10; ++i) more.push_back(id + i);
    append(ring, more);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  EXPECT_TRUE(holds(ring, ids));
  EXPECT_EQ(ring.bytes(), bytes);
  EXPECT_GT(ring.begin(0), 4800);
}

TEST(Ring, TakesAsFewPanelsAsAWindowAndAChunkCanTouch) {
  const Index panel = kStoreGeometry.bytes<F32>(16);
  EXPECT_EQ(Ring<F32>::bytes_for(kStoreGeometry, 100, 14), 8 * panel);
  EXPECT_EQ(Ring<F32>::bytes_for(kStoreGeometry, 100, 15), 9 * panel);
  EXPECT_EQ(Ring<F32>::bytes_for(kStoreGeometry, 1, 1), 1 * panel);
}

// Panel spans ascend, cover what is held, and are where get() reads.
TEST(Ring, HandsOutItsRowsInAtMostTwoPanelSpans) {
  Ring<F32> ring(kStoreGeometry, 40, 7);
  const kv::PanelLayout<F32> layout(kStoreGeometry);
  for (Index id = 0; id < 400; ++id) {
    append(ring, std::vector<Index>{id});
    if (id % 29 == 28) {
      ring.reserve(7);
      ring.rewind(ring.end() - 2);  // reserved slots are not handed out
    }
    const auto spans = ring.panel_spans(1, 1);
    ASSERT_LE(spans.size(), 2u);
    Position at = (*spans.begin()).first;
    ASSERT_LE(at, ring.begin(0));
    for (const kv::PanelSpan& span : spans) {
      ASSERT_EQ(span.first, at);
      ASSERT_GT(span.tokens, 0);
      for (; at < span.first + span.tokens; ++at) {
        if (at < ring.begin(0) || at >= ring.end()) continue;
        std::vector<float> key(7), value(18), seen_key(7), seen_value(18);
        ring.get(1, 1, at, key, value);
        layout.get(span.panel(at), at % 16, seen_key, seen_value);
        ASSERT_EQ(key, seen_key);
        ASSERT_EQ(value, seen_value);
      }
    }
    ASSERT_GE(at, ring.end());
    ASSERT_LT(at, ring.end() + 16);
  }
}

TEST(Ring, SaysHowFarItGoesBack) {
  Ring<F32> ring(kStoreGeometry, 20, 4);
  EXPECT_EQ(ring.earliest_rewind(), 0);
  for (Index id = 0; id < 100; ++id) append(ring, std::vector<Index>{id});
  const Position back = ring.earliest_rewind();
  EXPECT_EQ(back, ring.begin(0) + 19);
  try {
    ring.rewind(back - 1);
    FAIL();
  } catch (const CannotRewind& error) {
    EXPECT_EQ(std::string(error.what()), sentence("kv::Ring::rewind: to ", back - 1,
                                                  ", where a window of 20 tokens is held "
                                                  "from ",
                                                  back, " on"));
  }
  EXPECT_EQ(ring.end(), 100);
  ring.rewind(0);  // an empty ring needs nothing
  EXPECT_EQ(ring.begin(0), 0);
  EXPECT_EQ(ring.earliest_rewind(), 0);
}

// Sink tokens are not overwritten when the ring wraps around.
TEST(Ring, HoldsItsSinkTokensHoweverTheyCome) {
  const Index panel = kStoreGeometry.bytes<F32>(16);
  EXPECT_EQ(Ring<F32>::bytes_for(kStoreGeometry, 40, 7, 2), 4 * panel + panel);
  for (Index sinks : {1, 2, 16, 20}) {
    for (const std::vector<Index>& chunks :
         {std::vector<Index>{1}, std::vector<Index>{5, 7}, std::vector<Index>{12}}) {
      Ring<F32> ring(kStoreGeometry, 40, 12, sinks);
      std::vector<Index> ids;
      for (std::size_t n = 0; ring.end() < (trial::kSlowBuild ? 120 : 300); ++n) {
        std::vector<Index> more(static_cast<std::size_t>(chunks[n % chunks.size()]));
        std::iota(more.begin(), more.end(), std::ssize(ids));
        append(ring, more);
        ids.insert(ids.end(), more.begin(), more.end());
        ASSERT_TRUE(holds(ring, ids));
        Position covered = 0;
        for (const kv::PanelSpan& span : ring.panel_spans(1, 2)) {
          ASSERT_GE(span.first, covered);
          covered = span.end();
        }
        ASSERT_GE(covered, ring.end());
        for (Position at = 0; at < std::min(sinks, ring.end()); ++at) {
          trial::StoredRow row = trial::row_of(at, 1, 2);
          const trial::StoredRow put = row;
          ring.get(1, 2, at, row.key, row.value);
          ASSERT_EQ(row, put) << "token " << at << " of " << sinks << " sink tokens";
        }
      }
      ASSERT_GT(ring.begin(0), sinks);
      trial::StoredRow row = trial::row_of(0, 0, 0);
      EXPECT_THROW(ring.get(0, 0, sinks, row.key, row.value), std::invalid_argument);
      ring.rewind(0);
      EXPECT_EQ(ring.begin(0), 0);
    }
  }
  EXPECT_THROW(Ring<F32>(kStoreGeometry, 40, 7, -1), std::invalid_argument);
}

TEST(Ring, RefusesInvalidSizesAndLayers) {
  EXPECT_THROW(Ring<F32>(kStoreGeometry, 0, 4), std::invalid_argument);
  EXPECT_THROW(Ring<F32>(kStoreGeometry, 4, 0), std::invalid_argument);
  EXPECT_THROW(Ring<F32>(kStoreGeometry, std::numeric_limits<Index>::max(), 4),
               std::invalid_argument);
  EXPECT_THROW(Ring<F32>({0, 1, 1, 1}, 4, 4), std::invalid_argument);
  Ring<F32> ring(kStoreGeometry, 20, 4);
  EXPECT_THROW(ring.reserve(5), CacheFull);
  EXPECT_THROW(ring.reserve(-1), std::invalid_argument);
  EXPECT_THROW(ring.rewind(1), std::invalid_argument);
}

}  // namespace
