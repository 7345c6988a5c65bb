// tests/kv/panel_test.cpp - the layout of a panel, against its drawing, for keys and values in
// formats of their own.
#include <decant/kv/panel.hpp>

#include "kv/stores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::F16;
using codec::F32;
using codec::FP8E4M3;
using codec::FP8E5M2;
using codec::Int8;
using kv::PanelLayout;
using trial::Formats;

constexpr kv::Geometry kPanelGeometry = {.layers = 1, .heads = 1, .key_dim = 7, .value_dim = 18};

template <class T>
T at(const std::vector<std::byte>& panel, Index byte) {
  T number;
  std::memcpy(&number, panel.data() + byte, sizeof number);
  return number;
}

template <class Pair>
class Panel : public testing::Test {};
using Pairs = testing::Types<Formats<F32, F32>, Formats<BF16, F16>, Formats<Int8, Int8>,
                             Formats<Int8, BF16>, Formats<F32, FP8E4M3>, Formats<FP8E5M2, Int8>>;
TYPED_TEST_SUITE(Panel, Pairs);

TYPED_TEST(Panel, LiesAsItIsDrawn) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  using KeyCell = typename K::Cell;
  using ValueCell = typename V::Cell;
  const PanelLayout<K, V> layout(kPanelGeometry);
  const Index p = K::kInterleave;
  const Index q = V::kInterleave;
  const Index values_at = round_up(Index{7}, p) * 16 * Index{sizeof(KeyCell)};
  const Index scales_at = values_at + 32 * 16 * Index{sizeof(ValueCell)};
  const Index value_scales_at = scales_at + (K::kScaled ? 64 : 0);
  ASSERT_EQ(layout.bytes(), value_scales_at + (V::kScaled ? 64 : 0));
  std::vector<std::byte> panel(static_cast<std::size_t>(layout.bytes()));
  for (Index slot = 0; slot < 16; ++slot) {
    layout.put(panel.data(), slot, trial::noisy(7, 1 + 2 * static_cast<std::uint64_t>(slot)),
               trial::noisy(18, 2 + 2 * static_cast<std::uint64_t>(slot)));
  }
  for (Index slot = 0; slot < 16; ++slot) {
    const auto key = trial::noisy(7, 1 + 2 * static_cast<std::uint64_t>(slot));
    const auto value = trial::noisy(18, 2 + 2 * static_cast<std::uint64_t>(slot));
    const float key_scale = codec::scale_of<K>(key);
    const float value_scale = codec::scale_of<V>(value);
    if (K::kScaled) {
      EXPECT_EQ(at<float>(panel, scales_at + slot * 4), key_scale);
    }
    if (V::kScaled) {
      EXPECT_EQ(at<float>(panel, value_scales_at + slot * 4), value_scale);
    }
    for (Index k = 0; k < 7; ++k) {
      const Index cell = (k / p * 16 + slot) * p + k % p;
      EXPECT_EQ(at<KeyCell>(panel, cell * Index{sizeof(KeyCell)}),
                K::store(key[static_cast<std::size_t>(k)] * (1.0f / key_scale)));
    }
    for (Index d = 0; d < 18; ++d) {
      const Index cell = (slot / q * 32 + d) * q + slot % q;
      EXPECT_EQ(at<ValueCell>(panel, values_at + cell * Index{sizeof(ValueCell)}),
                V::store(value[static_cast<std::size_t>(d)] * (1.0f / value_scale)));
    }
  }
}

TYPED_TEST(Panel, KeepsWhatIsNoNumberInItsToken) {
  using K = typename TypeParam::Keys;
  using V = typename TypeParam::Values;
  const PanelLayout<K, V> layout(kPanelGeometry);
  std::vector<std::byte> panel(static_cast<std::size_t>(layout.bytes()));
  std::vector<float> key(7, 1.0f), value(18, 2.0f), tiny(7, 0.0f);
  tiny[3] = 1e-39f;
  key[2] = trial::kNaN;
  value[5] = trial::kNaN;
  layout.put(panel.data(), 0, key, value);
  layout.put(panel.data(), 1, std::vector<float>(7, 1.0f), std::vector<float>(18, 2.0f));
  layout.put(panel.data(), 2, tiny, std::vector<float>(18, 0.0f));
  std::vector<float> out_key(7), out_value(18);
  layout.get(panel.data(), 0, out_key, out_value);
  EXPECT_TRUE(std::isnan(out_key[2]) && std::isnan(out_value[5]));
  layout.get(panel.data(), 1, out_key, out_value);
  EXPECT_TRUE(trial::all_finite(out_key) && trial::all_finite(out_value));
  layout.get(panel.data(), 2, out_key, out_value);
  for (float number : out_key) EXPECT_LE(std::abs(number), 2e-39f);
  EXPECT_EQ(out_value, std::vector<float>(18, 0.0f));
}

}  // namespace
