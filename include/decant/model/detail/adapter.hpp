// decant/model/detail/adapter.hpp - defines model/adapter.hpp: where changes belong, and their
// hash.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/config.hpp>
#include <decant/model/detail/step_buffers.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::model {

namespace detail {

// Where a projection stands in its product.
struct Place {
  std::string_view name;
  LayerProduct product;
  Index first_output;
  Index outputs;
  Index inputs;
};

inline Place place_of(const Config& config, Projection projection) {
  const Index hidden = config.hidden_size;
  const Index inner = config.intermediate_size;
  const Index queries = config.heads * config.key_dim;
  const Index keys = config.kv_heads * config.key_dim;
  const Index values = config.kv_heads * config.value_dim;
  switch (projection) {
    case Projection::query:
      return {"query", LayerProduct::qkv, 0, queries, hidden};
    case Projection::key:
      return {"key", LayerProduct::qkv, queries, keys, hidden};
    case Projection::value:
      return {"value", LayerProduct::qkv, queries + keys, values, hidden};
    case Projection::qkv:
      return {"qkv", LayerProduct::qkv, 0, config.qkv_size(), hidden};
    case Projection::attention_output:
      return {"attention output", LayerProduct::attention_output, 0, hidden,
              config.heads * config.value_dim};
    case Projection::gate:
      return {"gate", LayerProduct::up, 0, config.gated ? inner : 0, hidden};
    case Projection::up:
      return {"up", LayerProduct::up, config.gated ? inner : 0, inner, hidden};
    case Projection::down:
      return {"down", LayerProduct::down, 0, hidden, inner};
  }
  return {"unknown projection", LayerProduct::qkv, 0, 0, 0};
}

inline void check(const Config& config, const LowRankChange& change, const Place& place) {
  expects(change.layer >= 0 && change.layer < config.layers, "model::Adapter: layer ", change.layer,
          " of ", config.layers);
  expects(place.outputs > 0, "model::Adapter: the model has no ", place.name, " in layer ",
          change.layer);
  const kernels::MatrixView& a = change.a;
  const kernels::MatrixView& b = change.b;
  expects(a.columns == place.inputs && b.rows == place.outputs && a.rows == b.columns,
          "model::Adapter: the ", place.name, " of layer ", change.layer, " is changed by [",
          b.rows, ", ", b.columns, "] times [", a.rows, ", ", a.columns, "], not by [",
          place.outputs, ", rank] times [rank, ", place.inputs, "]");
  expects(a.rows > 0 && a.rows <= widest_input(config), "model::Adapter: the ", place.name,
          " of layer ", change.layer, " has rank ", a.rows, ", not in [1, ", widest_input(config),
          "]");
  expects(std::isfinite(change.scale), "model::Adapter: the ", place.name, " of layer ",
          change.layer, " has the scale ", change.scale);
}

// As kernels/matrix.hpp packs a view, with products in f32 whatever its format.
inline kernels::Matrix packed(const kernels::MatrixView& view) {
  return {{&view, 1}, view.type, kernels::Activations::full};
}

// FNV-1a by words, with the high half folded into the low one.
class ChangeHash {
 public:
  void add(std::uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 1099511628211u;
    hash_ ^= hash_ >> 32;
  }
  void add(const kernels::Matrix& matrix) {
    add(static_cast<std::uint64_t>(matrix.rows()));
    std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
    for (Index at = 0; at < matrix.rows(); ++at) {
      matrix.row(at, row);
      for (float element : row) add(std::bit_cast<std::uint32_t>(element));
    }
  }
  std::uint64_t value() const noexcept { return hash_ == 0 ? 1 : hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

}  // namespace detail

DECANT_INLINE Adapter::Adapter(const Config& config, std::span<const LowRankChange> changes)
    : config_(config) {
  model::check(config);
  layers_.resize(static_cast<std::size_t>(config.layers));
  detail::ChangeHash hash;
  for (const LowRankChange& change : changes) {
    const detail::Place place = detail::place_of(config, change.projection);
    detail::check(config, change, place);
    auto& list =
        layers_[static_cast<std::size_t>(change.layer)][static_cast<std::size_t>(place.product)];
    list.push_back(
        {detail::packed(change.a), detail::packed(change.b), change.scale, place.first_output});
    hash.add(static_cast<std::uint64_t>(change.layer));
    hash.add(static_cast<std::uint64_t>(change.projection));
    hash.add(std::bit_cast<std::uint32_t>(change.scale));
    hash.add(list.back().a);
    hash.add(list.back().b);
  }
  id_ = hash.value();
}

DECANT_INLINE Index Adapter::bytes() const noexcept {
  Index bytes = 0;
  for (const Layer& layer : layers_) {
    for (const auto& changes : layer) {
      for (const detail::PackedChange& change : changes)
        bytes += change.a.bytes() + change.b.bytes();
    }
  }
  return bytes;
}

}  // namespace decant::inline DECANT_ABI::model
