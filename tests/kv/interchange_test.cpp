// tests/kv/interchange_test.cpp - rows through arrays [heads][tokens][dim] and back.
#include "kv/stores.hpp"

#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/interchange.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;

constexpr kv::Geometry kArrayGeometry = trial::kStoreGeometry;

// Arrays of all layers, filled with a value that no row has.
struct Arrays {
  explicit Arrays(Index extent) : tokens(extent) {
    for (Index layer = 0; layer < kArrayGeometry.layers; ++layer) {
      keys.emplace_back(
          static_cast<std::size_t>(kArrayGeometry.heads * extent * kArrayGeometry.key_dim), 9.0f);
      values.emplace_back(
          static_cast<std::size_t>(kArrayGeometry.heads * extent * kArrayGeometry.value_dim), 9.0f);
    }
  }

  template <kv::Store S>
  void fill(const S& store, Range positions) {
    for (std::size_t layer = 0; layer < keys.size(); ++layer) {
      kv::copy_out(store, static_cast<Index>(layer), positions,
                   {keys[layer].data(), values[layer].data(), tokens});
    }
  }

  std::vector<kv::SequenceArrays<const float>> views() const {
    std::vector<kv::SequenceArrays<const float>> result;
    for (std::size_t layer = 0; layer < keys.size(); ++layer) {
      result.push_back({keys[layer].data(), values[layer].data(), tokens});
    }
    return result;
  }

  Index tokens;
  std::vector<std::vector<float>> keys, values;
};

std::vector<Index> numbered(Index count) {
  std::vector<Index> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(Interchange, LaysHeadsOneBehindTheOther) {
  const std::vector<Index> ids = numbered(20);
  kv::Contiguous<codec::F32> store(kArrayGeometry, 20);
  trial::append(store, ids);
  Arrays arrays(8);
  arrays.fill(store, {15, 20});
  for (Index token = 0; token < 8; ++token) {
    trial::for_heads([&](Index layer, Index head) {
      trial::StoredRow row = trial::row_of(15 + token, layer, head);
      if (token >= 5)
        row = {std::vector(row.key.size(), 9.0f), std::vector(row.value.size(), 9.0f)};
      const float* key = &arrays.keys[static_cast<std::size_t>(layer)]
                                     [static_cast<std::size_t>((head * 8 + token) * 7)];
      const float* value = &arrays.values[static_cast<std::size_t>(layer)]
                                         [static_cast<std::size_t>((head * 8 + token) * 18)];
      EXPECT_EQ(row.key, std::vector(key, key + 7));
      EXPECT_EQ(row.value, std::vector(value, value + 18));
    });
  }
}

template <class C>
class InterchangeOf : public testing::Test {};
using ExchangedCodecs = testing::Types<codec::F32, codec::BF16, codec::F16, codec::Int8,
                                       codec::Int4, codec::FP8E4M3, codec::FP8E5M2>;
TYPED_TEST_SUITE(InterchangeOf, ExchangedCodecs);

// From pages into a ring that wraps around, and out of it again: values and scales are not rounded
// a second time.
TYPED_TEST(InterchangeOf, GoesFromStoreToStore) {
  const std::vector<Index> ids = numbered(200);
  kv::PagePool<TypeParam> pool(kArrayGeometry, 13, 16);
  kv::Paged<TypeParam> paged(pool);
  trial::append(paged, ids);
  Arrays arrays(200);
  arrays.fill(paged, {0, 200});
  const auto views = arrays.views();
  const std::span<const kv::SequenceArrays<const float>> all = views;
  kv::Ring<TypeParam> ring(kArrayGeometry, 30, 25);
  for (Index first = 0; first < 200; first += 25) kv::append(ring, all, {first, first + 25});
  EXPECT_TRUE(trial::holds(ring, ids));
  EXPECT_THROW(kv::append(ring, all, {0, 26}), CacheFull);
  EXPECT_TRUE(trial::holds(ring, ids));

  ASSERT_GT(ring.begin(0), 0);
  Arrays last(200 - ring.begin(0));
  last.fill(ring, {ring.begin(0), 200});
  kv::Contiguous<TypeParam> rest(kArrayGeometry, last.tokens);
  const auto last_views = last.views();
  kv::append(rest, std::span<const kv::SequenceArrays<const float>>(last_views), {0, last.tokens});
  EXPECT_TRUE(trial::holds(rest, std::span(ids).subspan(static_cast<std::size_t>(ring.begin(0)))));
  EXPECT_THROW(arrays.fill(ring, {ring.begin(0) - 1, 200}), std::invalid_argument);
}

TEST(Interchange, OfNoTokensChangesNothing) {
  kv::Contiguous<codec::Int4> store(kArrayGeometry, 20);
  const Arrays arrays(5);
  const auto views = arrays.views();
  kv::append(store, std::span<const kv::SequenceArrays<const float>>(views), {3, 3});
  EXPECT_EQ(store.end(), 0);
  trial::append(store, numbered(20));
  EXPECT_TRUE(trial::holds(store, numbered(20)));
}

TEST(Interchange, RefusesRowsThatAreNotHeld) {
  kv::Contiguous<codec::F32> store(kArrayGeometry, 20);
  trial::append(store, numbered(10));
  Arrays arrays(8);
  const auto views = arrays.views();
  const std::span<const kv::SequenceArrays<const float>> all = views;
  EXPECT_THROW(kv::append(store, all.first(1), {0, 8}), std::invalid_argument);
  EXPECT_THROW(kv::append(store, all, {0, 9}), std::invalid_argument);
  EXPECT_THROW(kv::append(store, all, {-1, 8}), std::invalid_argument);
  EXPECT_THROW(kv::append(store, all, {5, 4}), std::invalid_argument);
  EXPECT_THROW(arrays.fill(store, {0, 9}), std::invalid_argument);
  EXPECT_THROW(arrays.fill(store, {5, 11}), std::invalid_argument);
  EXPECT_THROW(arrays.fill(store, {-1, 3}), std::invalid_argument);
  EXPECT_THROW(arrays.fill(store, {5, 4}), std::invalid_argument);
  EXPECT_THROW(kv::copy_out(store, 2, {0, 1}, {nullptr, nullptr, 8}), std::invalid_argument);
  EXPECT_TRUE(trial::holds(store, numbered(10)));
  kv::Ring<codec::F32> ring(kArrayGeometry, 20, 5, 3);  // its first three tokens, and a gap
  for (Index id = 0; id < 100; ++id) trial::append(ring, std::vector<Index>{id});
  EXPECT_THROW(arrays.fill(ring, {0, 8}), std::invalid_argument);
  for (const auto& keys : arrays.keys) {
    for (float value : keys) EXPECT_EQ(value, 9.0f);
  }
}

}  // namespace
