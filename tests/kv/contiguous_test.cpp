// tests/kv/contiguous_test.cpp - a contiguous store against a list of rows that never forgets.
#include <decant/kv/contiguous.hpp>

#include "law/bits.hpp"

#include <decant/codec/plain.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using kv::Contiguous;
using kv::Geometry;

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

constexpr Geometry kGeometry = {.layers = 2, .heads = 3, .key_dim = 7, .value_dim = 18};

struct Row {
  std::vector<float> key;
  std::vector<float> value;
};

template <class C>
std::vector<float> stored(std::vector<float> numbers) {
  for (float& number : numbers) number = C::load(C::store(number));
  return numbers;
}

template <class C>
Row row_of(const Contiguous<C>& store, Index layer, Index head, Position at) {
  Row row{std::vector<float>(static_cast<std::size_t>(store.geometry().key_dim)),
          std::vector<float>(static_cast<std::size_t>(store.geometry().value_dim))};
  store.get(layer, head, at, row.key, row.value);
  return row;
}

// Rows by (layer, head, position), as they went in.
template <class C>
class Twin {
 public:
  void append(Contiguous<C>& store, Index count) {
    store.reserve(count);
    for (Index i = 0; i < count; ++i) {
      for (Index layer = 0; layer < kGeometry.layers; ++layer) {
        for (Index head = 0; head < kGeometry.heads; ++head) {
          Row row = {trial::noisy(kGeometry.key_dim, seed_++), trial::noisy(18, seed_++)};
          store.put(layer, head, store.end() + i, row.key, row.value);
          rows_[{layer, head, store.end() + i}] = row;
        }
      }
    }
    store.publish(count);
  }

  void expect_equal(const Contiguous<C>& store) const {
    for (Position at = 0; at < store.end(); ++at) {
      for (Index layer = 0; layer < kGeometry.layers; ++layer) {
        for (Index head = 0; head < kGeometry.heads; ++head) {
          const Row& expected = rows_.at({layer, head, at});
          const Row row = row_of(store, layer, head, at);
          ASSERT_EQ(row.key, stored<C>(expected.key)) << at;
          ASSERT_EQ(row.value, stored<C>(expected.value)) << at;
        }
      }
    }
  }

 private:
  std::map<std::tuple<Index, Index, Position>, Row> rows_;
  std::uint64_t seed_ = 1;
};

TYPED_TEST(ContiguousStore, HoldsWhatAListHoldsUnderAnyOperations) {
  std::mt19937 random(7);
  const auto below = [&](Index n) {
    return static_cast<Index>(random() % static_cast<unsigned>(n));
  };
  for (Index capacity : {1, 16, 37, 50}) {
    Contiguous<TypeParam> store(kGeometry, capacity);
    Twin<TypeParam> twin;
    for (int operation = 0; operation < 60; ++operation) {
      const Position before = store.end();
      if (below(3) > 0) {
        const Index count = below(capacity - store.end() + 1);
        twin.append(store, count);
        EXPECT_EQ(store.end(), before + count);
      } else {
        const Position to = below(before + 1);
        store.rewind(to);
        EXPECT_EQ(store.end(), to);
      }
      EXPECT_EQ(store.begin(), 0);
      EXPECT_EQ(store.earliest_rewind(), 0);
      EXPECT_EQ(store.capacity(), capacity);
      twin.expect_equal(store);
    }
  }
}

// A panel is what the geometry draws: keys [k / p][token][k % p], values [token / p][d][token % p].
TYPED_TEST(ContiguousStore, HandsOutPanelsInTheLayoutOfItsGeometry) {
  using C = TypeParam;
  constexpr Index p = C::kInterleave;
  Contiguous<C> store(kGeometry, 40);
  Twin<C> twin;
  twin.append(store, 40);
  const Index lanes = 32;
  for (Index layer = 0; layer < kGeometry.layers; ++layer) {
    for (Index head = 0; head < kGeometry.heads; ++head) {
      const auto blocks = store.blocks(layer, head);
      ASSERT_EQ(blocks.size(), 1u);
      EXPECT_EQ(blocks[0].first, 0);
      EXPECT_EQ(blocks[0].tokens, 48);
      const kv::PanelLayout<C> layout(kGeometry);
      for (Position at = 0; at < 40; ++at) {
        const Row row = row_of(store, layer, head, at);
        const Index token = at % 16;
        const std::byte* panel = blocks[0].panel(at);
        for (Index k = 0; k < kGeometry.key_dim; ++k) {
          ASSERT_EQ(C::load(layout.keys(panel)[(k / p * 16 + token) * p + k % p]),
                    row.key[static_cast<std::size_t>(k)]);
        }
        for (Index d = 0; d < kGeometry.value_dim; ++d) {
          ASSERT_EQ(C::load(layout.values(panel)[(token / p * lanes + d) * p + token % p]),
                    row.value[static_cast<std::size_t>(d)]);
        }
      }
    }
  }
}

TYPED_TEST(ContiguousStore, CountsRowsOnlyOncePublished) {
  Contiguous<TypeParam> store(kGeometry, 20);
  const Row row = {trial::noisy(7, 1), trial::noisy(18, 2)};
  store.reserve(2);
  store.put(0, 0, 0, row.key, row.value);
  store.put(0, 0, 1, row.key, row.value);
  EXPECT_EQ(store.end(), 0);
  EXPECT_THROW(row_of(store, 0, 0, 0), std::invalid_argument);
  store.publish(1);
  EXPECT_EQ(row_of(store, 0, 0, 0).key, stored<TypeParam>(row.key));
  EXPECT_THROW(row_of(store, 0, 0, 1), std::invalid_argument);
  EXPECT_THROW(row_of(store, 0, 0, -1), std::invalid_argument);
}

TYPED_TEST(ContiguousStore, ChangesNothingWhenFull) {
  Contiguous<TypeParam> store(kGeometry, 17);
  Twin<TypeParam> twin;
  twin.append(store, 16);
  store.reserve(1);
  EXPECT_THROW(store.reserve(2), CacheFull);
  EXPECT_THROW(store.reserve(std::numeric_limits<Index>::max()), CacheFull);
  EXPECT_EQ(store.end(), 16);
  twin.expect_equal(store);
  twin.append(store, 1);
  EXPECT_THROW(store.reserve(1), CacheFull);
  store.reserve(0);
  twin.expect_equal(store);
}

TYPED_TEST(ContiguousStore, RefusesWhatIsNoCountOrPosition) {
  Contiguous<TypeParam> store(kGeometry, 17);
  Twin<TypeParam> twin;
  twin.append(store, 5);
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

TYPED_TEST(ContiguousStore, NamesTheNumbersWhenItIsFull) {
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
  Twin<TypeParam> twin;
  twin.append(store, 9);
  Contiguous<TypeParam> moved(std::move(store));
  EXPECT_EQ(moved.end(), 9);
  twin.expect_equal(moved);
  Contiguous<TypeParam> other(kGeometry, 1);
  other = std::move(moved);
  EXPECT_EQ(other.capacity(), 17);
  twin.expect_equal(other);
}

}  // namespace
