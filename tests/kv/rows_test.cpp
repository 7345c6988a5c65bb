// tests/kv/rows_test.cpp - rows of any size and any values: each is read back as its format
// rounds it, and writing one touches no other.
#include <decant/kv/panel.hpp>

#include "kv/stores.hpp"

#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <span>
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
using trial::kWideGeometry;

using Bytes = std::vector<std::byte>;

constexpr Index kLargestDim = 70;
constexpr float kHuge = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// Rows of `dim` values with extremes of all kinds.
std::vector<std::vector<float>> odd_rows(Index dim) {
  const auto size = static_cast<std::size_t>(dim);
  std::vector<std::vector<float>> rows = {trial::noisy(dim, 5),
                                          trial::noisy(dim, 6, 1e30),
                                          trial::noisy(dim, 7, 1e-37),  // groups around the least
                                          std::vector<float>(size, 0.0f),
                                          std::vector<float>(size, -0.0f),
                                          std::vector<float>(size, -2.5f),
                                          std::vector<float>(size, kTiny),
                                          std::vector<float>(size, kHuge)};
  const auto with = [&](std::size_t at, float number) {
    rows.push_back(trial::noisy(dim, 8));
    rows.back()[at] = number;
  };
  for (float odd : {trial::kNaN, trial::kInfinity, -trial::kInfinity, -kHuge, 1e4f, 0.0f}) {
    with(0, odd);
    with(size / 2, odd);
    with(size - 1, odd);
  }
  rows.push_back(trial::noisy(dim, 9));
  for (std::size_t at = 0; at < size; at += 9) rows.back()[at] *= at % 2 == 0 ? 1000.0f : -1000.0f;
  return rows;
}

// A row as int4 rounds it, written out.
std::vector<float> in_four_bits(std::span<const float> row) {
  std::vector<float> result;
  for (std::size_t begin = 0; begin < row.size(); begin += 32) {
    const auto group = row.subspan(begin, std::min<std::size_t>(32, row.size() - begin));
    float largest = 0;
    for (float number : group) {
      if (!std::isfinite(number)) largest = trial::kNaN;
      if (!std::isnan(largest)) largest = std::max(largest, std::abs(number));
    }
    const float step = largest / 7;
    const bool zero = step < std::numeric_limits<float>::min();
    for (float number : group) {
      result.push_back(zero ? 0.0f : std::nearbyint(number * (1 / step)) * step);
    }
  }
  return result;
}

// Equal values; NaN equals NaN.
bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// A row with other values behind it in memory.
std::vector<float> followed(const std::vector<float>& row) {
  std::vector<float> longer = row;
  longer.resize(row.size() + 64, 1e30f);
  return longer;
}

TEST(RowsInFourBits, ComeOutAsTheFormatSays) {
  for (Index dim = 1; dim <= kLargestDim; ++dim) {
    const kv::Geometry geometry = {1, 1, dim, kLargestDim + 1 - dim};
    const kv::PanelLayout<Int4> layout(geometry);
    Bytes panel(static_cast<std::size_t>(layout.bytes()));
    const auto keys = odd_rows(geometry.key_dim);
    const auto values = odd_rows(geometry.value_dim);
    std::vector<float> key(keys[0].size()), value(values[0].size());
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const auto slot = static_cast<Index>(n % 16);
      const auto longer_key = followed(keys[n]);
      const auto longer_value = followed(values[n]);
      layout.put(panel.data(), slot, std::span(longer_key).first(key.size()),
                 std::span(longer_value).first(value.size()));
      layout.get(panel.data(), slot, key, value);
      ASSERT_TRUE(same_values(key, in_four_bits(keys[n]))) << "a key of " << dim << ", row " << n;
      ASSERT_TRUE(same_values(value, in_four_bits(values[n]))) << "a value, row " << n;
    }
  }
}

// Memory beside the row has no influence: the quantisation step is that of the row's own values.
TEST(RowsInFourBits, AreAsFineAsTheirOwnValues) {
  std::vector<float> row(48);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 0.01f * static_cast<float>(i);
  const kv::PanelLayout<Int4> layout({1, 1, 48, 48});
  Bytes panel(static_cast<std::size_t>(layout.bytes()), std::byte{0x7E});
  layout.put(panel.data(), 5, row, row);
  std::vector<float> key(48), value(48);
  layout.get(panel.data(), 5, key, value);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float half_step = (i < 32 ? 0.31f : 0.47f) / 14;
    EXPECT_NEAR(key[i], row[i], half_step + 1e-7f) << i;
    EXPECT_NEAR(value[i], row[i], half_step + 1e-7f) << i;
  }
}

template <class Formats>
class PanelRow : public testing::Test {};
using RowFormats = testing::Types<Formats<F32, BF16>, Formats<Int8, FP8E4M3>, Formats<Int4, Int4>,
                                  Formats<F16, Int4>, Formats<Int8, Int4>, Formats<Int4, FP8E5M2>>;
TYPED_TEST_SUITE(PanelRow, RowFormats);

// Which bytes `write` writes: those that do not depend on what was there.
template <class Write>
std::vector<bool> written(std::size_t size, Write&& write) {
  constexpr std::size_t kGuard = 64;
  Bytes zeros(size + 2 * kGuard, std::byte{0}), ones(size + 2 * kGuard, std::byte{0xFF});
  write(zeros.data() + kGuard);
  write(ones.data() + kGuard);
  std::vector<bool> result;
  for (std::size_t at = 0; at < zeros.size(); ++at) {
    const bool same = zeros[at] == ones[at];
    const bool guard = at < kGuard || at >= kGuard + size;
    EXPECT_FALSE(same && guard) << "byte " << at << " of " << size << " behind " << kGuard;
    result.push_back(same);
  }
  return result;
}

// As many bytes as a row takes, each in one row only.
TYPED_TEST(PanelRow, TouchesNoOther) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  for (Index dim = 1; dim <= kLargestDim; ++dim) {
    const kv::Geometry geometry = {1, 1, dim, kLargestDim + 1 - dim};
    const kv::PanelLayout<K, V> layout(geometry);
    const auto size = static_cast<std::size_t>(layout.bytes());
    std::vector<int> owners(size + 128);
    for (Index slot = 0; slot < 16; ++slot) {
      const auto row = written(size, [&](std::byte* panel) {
        layout.put(panel, slot, trial::noisy(geometry.key_dim, 3),
                   trial::noisy(geometry.value_dim, 4));
      });
      Index count = 0;
      for (std::size_t at = 0; at < row.size(); ++at) {
        count += row[at] ? 1 : 0;
        owners[at] += row[at] ? 1 : 0;
      }
      ASSERT_EQ(count, (geometry.payload_bytes<K, V>(1))) << "keys of " << dim;
    }
    ASSERT_LE(std::ranges::max(owners), 1) << "keys of " << dim;
  }
}

// A row as it lies, as bytes.
template <codec::Codec C, class Cells>
Bytes stored_in(const kv::PanelRows<C, Cells>& rows, Index dim, const std::byte* panel,
                Index slot) {
  std::vector<typename C::Cell> cells(static_cast<std::size_t>(Cells{dim}.of_row()));
  std::vector<float> scales(static_cast<std::size_t>(codec::scales_of_row<C>(dim)));
  rows.get_stored(panel, slot, {cells, scales});
  const auto first = std::as_bytes(std::span(cells));
  const auto second = std::as_bytes(std::span(scales));
  Bytes bytes(first.begin(), first.end());
  bytes.insert(bytes.end(), second.begin(), second.end());
  return bytes;
}

// Stored bytes depend on the elements of the row alone, not on what follows them in memory.
TYPED_TEST(PanelRow, LiesTheSameWhateverFollowsIt) {
  using V = typename TypeParam::Values;
  for (Index dim = 1; dim <= kLargestDim; ++dim) {
    const kv::PanelLayout<typename TypeParam::Keys, V> layout({1, 1, dim, dim});
    const auto size = static_cast<std::size_t>(dim);
    const std::vector<float> row = trial::noisy(dim, 3);
    std::vector<float> longer = followed(row);
    Bytes one(static_cast<std::size_t>(layout.bytes())), other = one;
    layout.put(one.data(), 3, std::span(longer).first(size), std::span(longer).first(size));
    std::fill(longer.begin() + dim, longer.end(), -1e30f);
    layout.put(other.data(), 3, std::span(longer).first(size), std::span(longer).first(size));
    ASSERT_EQ(one, other) << "rows of " << dim;
  }
}

// A row moved from one slot to another has the same bytes, and no other byte changes.
TYPED_TEST(PanelRow, MovesAsItLies) {
  using K = typename TypeParam::Keys;
  for (Index dim = 1; dim <= kLargestDim; ++dim) {
    const kv::PanelLayout<K, typename TypeParam::Values> layout({1, 1, dim, 1});
    const auto size = static_cast<std::size_t>(layout.bytes());
    std::vector<typename K::Cell> cells(static_cast<std::size_t>(kv::KeyCells<K>{dim}.of_row()));
    std::vector<float> scales(static_cast<std::size_t>(codec::scales_of_row<K>(dim)));
    const std::vector<float> row = trial::noisy(dim, 3);
    Bytes from(size), to(size);
    layout.keys().put(from.data(), 3, row);
    layout.keys().get_stored(from.data(), 3, {cells, scales});
    layout.keys().put_stored(to.data(), 14, {cells, scales});
    std::vector<float> before(row.size()), after(row.size());
    layout.keys().get(from.data(), 3, before);
    layout.keys().get(to.data(), 14, after);
    ASSERT_EQ(before, after) << "keys of " << dim;
    ASSERT_EQ(stored_in(layout.keys(), dim, from.data(), 3),
              stored_in(layout.keys(), dim, to.data(), 14));
    const auto touched = written(
        size, [&](std::byte* panel) { layout.keys().put_stored(panel, 14, {cells, scales}); });
    ASSERT_EQ(static_cast<std::size_t>(std::ranges::count(touched, true)),
              std::span(cells).size_bytes() + std::span(scales).size_bytes());
  }
}

// Whether a store holds rows `ids`, with the cells and scales of one in which nothing else ever
// was.
template <kv::Store S>
testing::AssertionResult lies_as_new(const S& store, std::span<const Index> ids) {
  const auto held = trial::holds(store, ids);
  if (!held) return held;
  using K = typename S::Keys;
  using V = typename S::Values;
  const kv::Geometry geometry = store.geometry();
  const kv::PanelLayout<K, V> layout(geometry);
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    for (Index head = 0; head < geometry.heads; ++head) {
      for (const kv::PanelSpan& span : store.panel_spans(layer, head)) {
        const Position end = std::min(span.end(), store.end());
        for (Position at = std::max(span.first, store.begin(layer)); at < end; ++at) {
          Bytes panel(static_cast<std::size_t>(layout.bytes()));
          const auto row = trial::row_of(ids[static_cast<std::size_t>(at)], layer, head, geometry);
          layout.put(panel.data(), 0, row.key, row.value);
          const std::byte* lies = span.panel(at);
          if (stored_in(layout.keys(), geometry.key_dim, lies, at % 16) !=
                  stored_in(layout.keys(), geometry.key_dim, panel.data(), 0) ||
              stored_in(layout.values(), geometry.value_dim, lies, at % 16) !=
                  stored_in(layout.values(), geometry.value_dim, panel.data(), 0)) {
            return testing::AssertionFailure() << "the row of position " << at;
          }
        }
      }
    }
  }
  return testing::AssertionSuccess();
}

// Rows of several groups are appended, rewound and appended again, forked and wrapped around.
TYPED_TEST(PanelRow, LiesInEveryStoreAsInANewOne) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  kv::Contiguous<K, V> contiguous(kWideGeometry, 160);
  kv::PagePool<K, V> pool(kWideGeometry, 14, 32);
  kv::Paged<K, V> paged(pool);
  kv::Ring<K, V> ring(kWideGeometry, 33, 20);
  std::mt19937 random(5);
  std::vector<Index> ids;
  const auto go_back = [&](Position end) {
    contiguous.rewind(end);
    paged.rewind(end);
    ring.rewind(end);
    ids.resize(static_cast<std::size_t>(end));
  };
  for (Index turn = 0; turn < (trial::kSlowBuild ? 6 : 40); ++turn) {
    std::vector<Index> some(1 + random() % 20);
    for (std::size_t n = 0; n < some.size(); ++n) some[n] = turn * 20 + static_cast<Index>(n);
    const Position back = ring.end() - static_cast<Index>(random() % 9);
    go_back(ring.end() > 140 ? 0 : std::max(back, ring.earliest_rewind()));
    kv::Paged<K, V> fork = paged.fork();
    trial::append(contiguous, some);
    trial::append(paged, some);
    trial::append(ring, some);
    std::vector<Index> other = ids;
    other.push_back(5000 + turn);
    trial::append(fork, std::span(other).last(1));
    ids.insert(ids.end(), some.begin(), some.end());
    ASSERT_TRUE(lies_as_new(contiguous, ids));
    ASSERT_TRUE(lies_as_new(paged, ids));
    ASSERT_TRUE(lies_as_new(ring, ids));
    ASSERT_TRUE(lies_as_new(fork, other));
  }
}

}  // namespace
