// tests/kv/panel_test.cpp - the documented layout of a panel, for keys and values in formats of
// their own.
#include <decant/kv/panel.hpp>

#include "kv/stores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
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
using kv::PanelLayout;
using trial::Formats;

constexpr Index kKeyDim = 37;  // beyond a group of 32, and odd
constexpr Index kValueDim = 50;
constexpr kv::Geometry kPanelGeometry = {
    .layers = 1, .heads = 1, .key_dim = kKeyDim, .value_dim = kValueDim};

template <class T>
T at(const std::vector<std::byte>& panel, Index byte) {
  T number;
  std::memcpy(&number, panel.data() + byte, sizeof number);
  return number;
}

template <class Formats>
class Panel : public testing::Test {};
using KeyValueFormats =
    testing::Types<Formats<F32, F32>, Formats<BF16, F16>, Formats<Int8, Int8>, Formats<Int8, BF16>,
                   Formats<F32, FP8E4M3>, Formats<FP8E5M2, Int8>, Formats<Int4, Int4>,
                   Formats<BF16, Int4>>;
TYPED_TEST_SUITE(Panel, KeyValueFormats);

std::vector<float> key_of(Index slot) {
  return trial::noisy(kKeyDim, 1 + 2 * static_cast<std::uint64_t>(slot));
}
std::vector<float> value_of(Index slot) {
  return trial::noisy(kValueDim, 2 + 2 * static_cast<std::uint64_t>(slot));
}

// The index of the scale of an element of a row in [scales][16 slots].
template <class C>
Index scale_index(Index slot, Index element) {
  return (C::kGroup > 0 ? element / C::kGroup * 16 : 0) + slot;
}
template <class C>
Index scales(Index values) {
  if (!C::kScaled) return 0;
  return C::kGroup > 0 ? (values + C::kGroup - 1) / C::kGroup : 1;
}

// The value of a cell, and that of a row as the format rounds it.
template <class C>
float cell_value(const std::vector<std::byte>& panel, Index cells_at, Index cell, Index part) {
  using Cell = typename C::Cell;
  return codec::load<C>(at<Cell>(panel, cells_at + cell * Index{sizeof(Cell)}), part);
}
template <class C>
float rounded(float number, float scale) {
  return codec::load<C>(codec::store<C>([&](Index) { return number * (1.0f / scale); }), 0);
}

TYPED_TEST(Panel, HasTheDocumentedLayout) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const PanelLayout<K, V> layout(kPanelGeometry);
  const Index p = K::kInterleave;
  const Index q = V::kInterleave;
  const Index key_cells = (kKeyDim + K::kPack - 1) / K::kPack;
  const Index keys_at = scales<K>(kKeyDim) * 64;
  const Index value_scales_at =
      keys_at + round_up(key_cells, p) * 16 * Index{sizeof(typename K::Cell)};
  const Index values_at = value_scales_at + scales<V>(kValueDim) * 64;
  ASSERT_EQ(layout.bytes(), values_at + 64 / V::kPack * 16 * Index{sizeof(typename V::Cell)});
  std::vector<std::byte> panel(static_cast<std::size_t>(layout.bytes()));
  for (Index slot = 0; slot < 16; ++slot) {
    layout.put(panel.data(), slot, key_of(slot), value_of(slot));
  }
  for (Index slot = 0; slot < 16; ++slot) {
    const auto key = key_of(slot);
    const auto value = value_of(slot);
    for (Index k = 0; k < kKeyDim; ++k) {
      const float scale = K::kScaled ? at<float>(panel, 4 * scale_index<K>(slot, k)) : 1.0f;
      const Index cell = k / K::kPack;
      EXPECT_EQ(cell_value<K>(panel, keys_at, (cell / p * 16 + slot) * p + cell % p, k % K::kPack),
                rounded<K>(key[static_cast<std::size_t>(k)], scale));
    }
    for (Index d = 0; d < kValueDim; ++d) {
      const float scale =
          V::kScaled ? at<float>(panel, value_scales_at + 4 * scale_index<V>(slot, d)) : 1.0f;
      const Index run = 16 * V::kPack;
      const Index cell = d / run * 16 + d % 16;
      EXPECT_EQ(cell_value<V>(panel, values_at, (slot / q * (64 / V::kPack) + cell) * q + slot % q,
                              d % run / 16),
                rounded<V>(value[static_cast<std::size_t>(d)], scale));
    }
  }
}

// A scale is that of its row, or of its group of 32.
TYPED_TEST(Panel, HasScalesOfItsRows) {
  using K = typename TypeParam::Keys;
  if constexpr (K::kScaled) {
    const PanelLayout<K, typename TypeParam::Values> layout(kPanelGeometry);
    std::vector<std::byte> panel(static_cast<std::size_t>(layout.bytes()));
    layout.put(panel.data(), 3, key_of(3), value_of(3));
    const auto key = key_of(3);
    const std::span<const float> all(key);
    const std::size_t group = K::kGroup > 0 ? std::size_t{K::kGroup} : all.size();
    EXPECT_EQ(at<float>(panel, 4 * 3), codec::scale_of<K>(all.first(group)));
    if (group < all.size()) {
      EXPECT_EQ(at<float>(panel, 4 * (16 + 3)), codec::scale_of<K>(all.subspan(group)));
    }
  }
}

TYPED_TEST(Panel, PropagatesNaNWithinItsToken) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const PanelLayout<K, V> layout(kPanelGeometry);
  std::vector<std::byte> panel(static_cast<std::size_t>(layout.bytes()));
  std::vector<float> key(kKeyDim, 1.0f), value(kValueDim, 2.0f), tiny(kKeyDim, 0.0f);
  tiny[3] = 1e-39f;
  key[2] = trial::kNaN;
  value[5] = trial::kNaN;
  layout.put(panel.data(), 0, key, value);
  layout.put(panel.data(), 1, std::vector<float>(kKeyDim, 1.0f),
             std::vector<float>(kValueDim, 2.0f));
  layout.put(panel.data(), 2, tiny, std::vector<float>(kValueDim, 0.0f));
  std::vector<float> out_key(kKeyDim), out_value(kValueDim);
  layout.get(panel.data(), 0, out_key, out_value);
  EXPECT_TRUE(std::isnan(out_key[2]) && std::isnan(out_value[5]));
  layout.get(panel.data(), 1, out_key, out_value);
  EXPECT_TRUE(trial::all_finite(out_key) && trial::all_finite(out_value));
  layout.get(panel.data(), 2, out_key, out_value);
  for (float number : out_key) EXPECT_LE(std::abs(number), 2e-39f);
  EXPECT_EQ(out_value, std::vector<float>(kValueDim, 0.0f));
}

}  // namespace
