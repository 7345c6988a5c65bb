// decant/model/detail/weights.hpp - defines model/weights.hpp: whether weights fit a configuration.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::model {

namespace detail {

inline void check_matrix(const kernels::Matrix& matrix, Index rows, Index columns,
                         std::string_view name, Index layer) {
  expects(matrix.rows() == rows && matrix.columns() == columns, "model::Weights: ", name,
          " of layer ", layer, " is [", matrix.rows(), ", ", matrix.columns(), "], not [", rows,
          ", ", columns, "]");
}

inline void check_vector(const std::vector<float>& values, Index size, bool optional,
                         std::string_view name, Index layer) {
  expects(std::ssize(values) == size || (optional && values.empty()), "model::Weights: ", name,
          " of layer ", layer, " has ", values.size(), " elements, not ", size);
}

inline void check_linear(const Linear& linear, Index rows, Index columns, std::string_view name,
                         Index layer) {
  check_matrix(linear.matrix, rows, columns, name, layer);
  check_vector(linear.bias, rows, true, name, layer);
}

inline void check_norm(Norm kind, const NormWeights& norm, Index size, bool optional,
                       std::string_view name, Index layer) {
  check_vector(norm.weight, size, optional, name, layer);
  check_vector(norm.bias, size, true, name, layer);
  expects(norm.bias.empty() || (kind == Norm::layer && !norm.weight.empty()),
          "model::Weights: ", name, " of layer ", layer, " has a bias that nothing would add");
}

inline void check_layer(const Config& config, const LayerWeights& weights, Index layer) {
  check_norm(config.norm, weights.attention_norm, config.hidden_size, false, "the attention norm",
             layer);
  check_linear(weights.qkv, config.qkv_size(), config.hidden_size, "qkv", layer);
  check_norm(config.norm, weights.query_norm, config.key_dim, true, "the query norm", layer);
  check_norm(config.norm, weights.key_norm, config.key_dim, true, "the key norm", layer);
  check_linear(weights.attention_output, config.hidden_size, config.heads * config.value_dim,
               "the attention output", layer);
  check_norm(config.norm, weights.feed_forward_norm, config.hidden_size, false,
             "the feed-forward norm", layer);
  check_linear(weights.up, config.up_size(), config.hidden_size, "up", layer);
  check_linear(weights.down, config.hidden_size, config.intermediate_size, "down", layer);
}

}  // namespace detail

DECANT_INLINE void check(const Config& config, const Weights& weights) {
  constexpr Index kNoLayer = -1;
  detail::check_matrix(weights.embedding, config.vocabulary, config.hidden_size, "the embedding",
                       kNoLayer);
  if (!config.rope || !weights.positions.empty()) {
    detail::check_vector(weights.positions,
                         checked_product(config.max_positions, config.hidden_size),
                         config.rope.has_value(), "the positions", kNoLayer);
  }
  expects(std::ssize(weights.layers) == config.layers, "model::Weights: ", weights.layers.size(),
          " layers, not ", config.layers);
  for (Index layer = 0; layer < config.layers; ++layer) {
    detail::check_layer(config, weights.layers[static_cast<std::size_t>(layer)], layer);
  }
  detail::check_norm(config.norm, weights.output_norm, config.hidden_size, false, "the output norm",
                     kNoLayer);
  if (!weights.output.matrix.empty()) {
    detail::check_matrix(weights.output.matrix, config.vocabulary, config.hidden_size, "the output",
                         kNoLayer);
  }
  detail::check_vector(weights.output.bias, config.vocabulary, true, "the output", kNoLayer);
}

DECANT_INLINE Index matrix_bytes(const Weights& weights) noexcept {
  Index bytes = weights.embedding.bytes() + weights.output.matrix.bytes();
  for (const LayerWeights& layer : weights.layers) {
    bytes += layer.qkv.matrix.bytes() + layer.attention_output.matrix.bytes() +
             layer.up.matrix.bytes() + layer.down.matrix.bytes();
  }
  return bytes;
}

}  // namespace decant::inline DECANT_ABI::model
