// decant/kv/panel.hpp - how sixteen consecutive tokens of one layer and head lie in memory.
//
// Every store cuts its memory into these panels, and attention reads them from front to back.
//
//   keys     [ceil(key_dim / p)][16 tokens][p]     lanes run over tokens
//   values   [16 / p][value_lanes][p]              lanes run over dimensions
//   scales   [16] of keys and [16] of values, in f32, each where its codec has them
//
// p is a codec's interleave; value_lanes is value_dim rounded up to 16. Where key_dim is a multiple
// of p and value_dim of 16, as in every published model of size, nothing is padding.
//
// Depends on  codec/scaled.hpp, kv/geometry.hpp
// Tested by   tests/kv/panel_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/debug.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/geometry.hpp>

#include <cstddef>
#include <span>

namespace decant::inline v0::kv {

// The scales of a row, 1 where its codec has none.
struct PanelScales {
  float key = 1.0f;
  float value = 1.0f;
};

// Where the parts of a panel begin, and how a token goes in and out.
//
// Shape    key is [key_dim], value is [value_dim]; slot is in [0, 16)
// Threads  puts into different slots of one panel may run at once
template <codec::Codec K, codec::Codec V = K>
class PanelLayout {
 public:
  using KeyCell = typename K::Cell;
  using ValueCell = typename V::Cell;

  explicit constexpr PanelLayout(const Geometry& geometry)
      : key_dim_(geometry.key_dim),
        value_dim_(geometry.value_dim),
        value_lanes_(round_up(geometry.value_dim, kPanelTokens)),
        values_at_(geometry.key_panel_bytes<K>()),
        scales_at_(values_at_ + geometry.value_panel_bytes<V>()),
        bytes_(geometry.panel_bytes<K, V>()) {}

  constexpr Index bytes() const noexcept { return bytes_; }

  const KeyCell* keys(const std::byte* panel) const noexcept {
    return reinterpret_cast<const KeyCell*>(panel);
  }
  const ValueCell* values(const std::byte* panel) const noexcept {
    return reinterpret_cast<const ValueCell*>(panel + values_at_);
  }
  // Sixteen each; none where the codec has no scales.
  const float* key_scales(const std::byte* panel) const noexcept {
    return K::kScaled ? reinterpret_cast<const float*>(panel + scales_at_) : nullptr;
  }
  const float* value_scales(const std::byte* panel) const noexcept {
    return V::kScaled ? reinterpret_cast<const float*>(panel + scales_at_ + kKeyScaleBytes)
                      : nullptr;
  }

  void put(std::byte* panel, Index slot, std::span<const float> key,
           std::span<const float> value) const noexcept {
    const float key_inverse = put_scale<K>(panel + scales_at_, slot, key);
    const float value_inverse = put_scale<V>(panel + scales_at_ + kKeyScaleBytes, slot, value);
    auto* keys = reinterpret_cast<KeyCell*>(panel);
    auto* values = reinterpret_cast<ValueCell*>(panel + values_at_);
    for (Index k = 0; k < key_dim_; ++k) {
      keys[key_cell(slot, k)] = K::store(key.data()[k] * key_inverse);
    }
    for (Index d = 0; d < value_dim_; ++d) {
      values[value_cell(slot, d)] = V::store(value.data()[d] * value_inverse);
    }
  }

  void get(const std::byte* panel, Index slot, std::span<float> key,
           std::span<float> value) const noexcept {
    const float key_scale = K::kScaled ? key_scales(panel)[slot] : 1.0f;
    const float value_scale = V::kScaled ? value_scales(panel)[slot] : 1.0f;
    for (Index k = 0; k < key_dim_; ++k) {
      key.data()[k] = K::load(keys(panel)[key_cell(slot, k)]) * key_scale;
    }
    for (Index d = 0; d < value_dim_; ++d) {
      value.data()[d] = V::load(values(panel)[value_cell(slot, d)]) * value_scale;
    }
  }

  // In the debug mode, makes a row what is no number.
  void spoil([[maybe_unused]] std::byte* panel, [[maybe_unused]] Index slot) const noexcept {
    if constexpr (kDebugStores) {
      auto* keys = reinterpret_cast<KeyCell*>(panel);
      auto* values = reinterpret_cast<ValueCell*>(panel + values_at_);
      for (Index k = 0; k < key_dim_; ++k) {
        debug::spoil(keys + key_cell(slot, k), Index{sizeof(KeyCell)});
      }
      for (Index d = 0; d < value_dim_; ++d) {
        debug::spoil(values + value_cell(slot, d), Index{sizeof(ValueCell)});
      }
      constexpr Index kScale = sizeof(float);
      std::byte* scales = panel + scales_at_;
      if (K::kScaled) debug::spoil(scales + slot * kScale, kScale);
      if (V::kScaled) debug::spoil(scales + kKeyScaleBytes + slot * kScale, kScale);
    }
  }

  // A row as it lies in its panel: cells that go out and in again are the same row, bit for bit.
  PanelScales get_cells(const std::byte* panel, Index slot, std::span<KeyCell> key,
                        std::span<ValueCell> value) const noexcept {
    for (Index k = 0; k < key_dim_; ++k) key.data()[k] = keys(panel)[key_cell(slot, k)];
    for (Index d = 0; d < value_dim_; ++d) value.data()[d] = values(panel)[value_cell(slot, d)];
    return {K::kScaled ? key_scales(panel)[slot] : 1.0f,
            V::kScaled ? value_scales(panel)[slot] : 1.0f};
  }
  void put_cells(std::byte* panel, Index slot, std::span<const KeyCell> key,
                 std::span<const ValueCell> value, const PanelScales& scales) const noexcept {
    auto* keys = reinterpret_cast<KeyCell*>(panel);
    auto* values = reinterpret_cast<ValueCell*>(panel + values_at_);
    for (Index k = 0; k < key_dim_; ++k) keys[key_cell(slot, k)] = key.data()[k];
    for (Index d = 0; d < value_dim_; ++d) values[value_cell(slot, d)] = value.data()[d];
    std::byte* at = panel + scales_at_;
    if constexpr (K::kScaled) reinterpret_cast<float*>(at)[slot] = scales.key;
    if constexpr (V::kScaled) {
      reinterpret_cast<float*>(at + kKeyScaleBytes)[slot] = scales.value;
    }
  }

 private:
  static constexpr Index kKeyScaleBytes = K::kScaled ? kPanelTokens * Index{sizeof(float)} : 0;

  static constexpr Index key_cell(Index slot, Index k) noexcept {
    constexpr Index p = K::kInterleave;
    return (k / p * kPanelTokens + slot) * p + k % p;
  }
  constexpr Index value_cell(Index slot, Index d) const noexcept {
    constexpr Index p = V::kInterleave;
    return (slot / p * value_lanes_ + d) * p + slot % p;
  }

  // Stores the scale of a row and gives what its numbers are to be multiplied by.
  template <codec::Codec C>
  static float put_scale(std::byte* scales, Index slot, std::span<const float> row) noexcept {
    if constexpr (C::kScaled) {
      const float scale = codec::scale_of<C>(row);
      reinterpret_cast<float*>(scales)[slot] = scale;
      return scale == 0.0f ? 0.0f : 1.0f / scale;
    } else {
      return 1.0f;
    }
  }

  Index key_dim_, value_dim_, value_lanes_;
  Index values_at_, scales_at_, bytes_;
};

}  // namespace decant::inline v0::kv
