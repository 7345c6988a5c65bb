// tests/kv/contiguous_test.cpp - a contiguous store against a list of rows that never forgets.
#include <decant/kv/contiguous.hpp>

#include "kv/stores.hpp"

#include <decant/codec/plain.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using kv::Contiguous;
using kv::Geometry;
using trial::StoredRow;

static_assert(kv::Store<Contiguous<F32>> && kv::Store<Contiguous<BF16>> &&
              kv::Store<Contiguous<F16>>);
static_assert(!std::is_copy_constructible_v<Contiguous<F32>>);
static_assert(!std::is_copy_assignable_v<Contiguous<F32>>);
static_assert(std::is_move_constructible_v<Contiguous<F32>>);
static_assert(std::is_move_assignable_v<Contiguous<F32>>);

template <class C>
class ContiguousStore : public testing::Test {};
using Codecs = testing::Types<F32, BF16, F16>;
TYPED_TEST_SUITE(ContiguousStore, Codecs);

constexpr Geometry kGeometry = trial::kStoreGeometry;

template <class C>
StoredRow held_row(const Contiguous<C>& store, Index layer, Index head, Position at) {
  StoredRow row = trial::row_of(0, layer, head);  // of the right sizes
  store.get(layer, head, at, row.key, row.value);
  return row;
}

// The rows of a store, by number, as they went in.
template <class C>
class Reference {
 public:
  void append(Contiguous<C>& store, Index count) {
    ids_.resize(static_cast<std::size_t>(store.end()));
    for (Index i = 0; i < count; ++i) ids_.push_back(next_++);
    trial::append(store, std::span(ids_).last(static_cast<std::size_t>(count)));
  }

  void expect_equal(const Contiguous<C>& store) const {
    const auto end = static_cast<std::size_t>(store.end());
    ASSERT_LE(end, ids_.size());
    EXPECT_TRUE(trial::holds(store, std::span(ids_).first(end)));
  }

 private:
  std::vector<Index> ids_;
  Index next_ = 0;
};

TYPED_TEST(ContiguousStore, HoldsWhatAListHoldsUnderAnyOperations) {
  std::mt19937 random(7);
  const auto below = [&](Index n) {
    return static_cast<Index>(random() % static_cast<unsigned>(n));
  };
  for (Index capacity : {1, 16, 37, 50}) {
    Contiguous<TypeParam> store(kGeometry, capacity);
    Reference<TypeParam> reference;
    for (int operation = 0; operation < 60; ++operation) {
      const Position before = store.end();
      if (below(3) > 0) {
        const Index count = below(capacity - store.end() + 1);
        reference.append(store, count);
        EXPECT_EQ(store.end(), before + count);
      } else {
        const Position to = below(before + 1);
        store.rewind(to);
        EXPECT_EQ(store.end(), to);
      }
      EXPECT_EQ(store.begin(0), 0);
      EXPECT_EQ(store.earliest_rewind(), 0);
      EXPECT_EQ(store.capacity(), capacity);
      reference.expect_equal(store);
    }
  }
}

// A panel is what the geometry draws: keys [k / p][token][k % p], values [token / p][d][token % p].
TYPED_TEST(ContiguousStore, HandsOutPanelsInTheLayoutOfItsGeometry) {
  using C = TypeParam;
  constexpr Index p = C::kInterleave;
  Contiguous<C> store(kGeometry, 40);
  Reference<C> reference;
  reference.append(store, 40);
  const Index lanes = 32;
  for (Index layer = 0; layer < kGeometry.layers; ++layer) {
    for (Index head = 0; head < kGeometry.heads; ++head) {
      const auto spans = store.panel_spans(layer, head);
      ASSERT_EQ(spans.size(), 1u);
      EXPECT_EQ(spans[0].first, 0);
      EXPECT_EQ(spans[0].tokens, 48);
      const kv::PanelLayout<C> layout(kGeometry);
      for (Position at = 0; at < 40; ++at) {
        const StoredRow row = held_row(store, layer, head, at);
        const Index token = at % 16;
        const std::byte* panel = spans[0].panel(at);
        for (Index k = 0; k < kGeometry.key_dim; ++k) {
          ASSERT_EQ(C::load(layout.keys().cells(panel)[(k / p * 16 + token) * p + k % p]),
                    row.key[static_cast<std::size_t>(k)]);
        }
        for (Index d = 0; d < kGeometry.value_dim; ++d) {
          ASSERT_EQ(C::load(layout.values().cells(panel)[(token / p * lanes + d) * p + token % p]),
                    row.value[static_cast<std::size_t>(d)]);
        }
      }
    }
  }
}

TYPED_TEST(ContiguousStore, CountsRowsOnlyOncePublished) {
  Contiguous<TypeParam> store(kGeometry, 20);
  const StoredRow row = trial::row_of(1, 0, 0);
  store.reserve(2);
  store.put(0, 0, 0, row.key, row.value);
  store.put(0, 0, 1, row.key, row.value);
  EXPECT_EQ(store.end(), 0);
  EXPECT_THROW(held_row(store, 0, 0, 0), std::invalid_argument);
  store.publish(1);
  EXPECT_EQ(held_row(store, 0, 0, 0).key, trial::stored<TypeParam>(row.key));
  EXPECT_THROW(held_row(store, 0, 0, 1), std::invalid_argument);
  EXPECT_THROW(held_row(store, 0, 0, -1), std::invalid_argument);
}

TYPED_TEST(ContiguousStore, ChangesNothingWhenFull) {
  Contiguous<TypeParam> store(kGeometry, 17);
  Reference<TypeParam> reference;
  reference.append(store, 16);
  store.reserve(1);
  EXPECT_THROW(store.reserve(2), CacheFull);
  EXPECT_THROW(store.reserve(std::numeric_limits<Index>::max()), CacheFull);
  EXPECT_EQ(store.end(), 16);
  reference.expect_equal(store);
  reference.append(store, 1);
  EXPECT_THROW(store.reserve(1), CacheFull);
  store.reserve(0);
  reference.expect_equal(store);
}

TYPED_TEST(ContiguousStore, RefusesWhatIsNoCountOrPosition) {
  Contiguous<TypeParam> store(kGeometry, 17);
  Reference<TypeParam> reference;
  reference.append(store, 5);
  EXPECT_THROW(store.reserve(-1), std::invalid_argument);
  EXPECT_THROW(store.rewind(6), std::invalid_argument);
  EXPECT_THROW(store.rewind(-1), std::invalid_argument);
  EXPECT_EQ(store.end(), 5);
  EXPECT_THROW((Contiguous<TypeParam>(kGeometry, 0)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>(kGeometry, -5)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>({0, 1, 1, 1}, 5)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>({1, 0, 1, 1}, 5)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>({1, 1, 0, 1}, 5)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>({1, 1, 1, -2}, 5)), std::invalid_argument);
  EXPECT_THROW((Contiguous<TypeParam>(kGeometry, Index{1} << 60)), std::invalid_argument);
}

TYPED_TEST(ContiguousStore, NamesItsCapacityWhenItIsFull) {
  Contiguous<TypeParam> store(kGeometry, 3);
  try {
    store.reserve(4);
    FAIL();
  } catch (const CacheFull& error) {
    EXPECT_STREQ(error.what(), "kv::Contiguous: 4 more tokens do not fit, 0 of 3 are in use");
  }
}

TYPED_TEST(ContiguousStore, MovesWithItsRows) {
  Contiguous<TypeParam> store(kGeometry, 17);
  Reference<TypeParam> reference;
  reference.append(store, 9);
  Contiguous<TypeParam> moved(std::move(store));
  EXPECT_EQ(moved.end(), 9);
  reference.expect_equal(moved);
  Contiguous<TypeParam> other(kGeometry, 1);
  other = std::move(moved);
  EXPECT_EQ(other.capacity(), 17);
  reference.expect_equal(other);
}

}  // namespace
