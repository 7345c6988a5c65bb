// tests/reference/from_weights.hpp - the library's packed parameters as the reference's named
// matrices.
//
// With it the reference can run any checkpoint that the library has read. If both agree with each
// other but not with published logits, the reader is wrong; if they differ, the arithmetic is.
#pragma once

#include "reference/model.hpp"

#include <decant/model/weights.hpp>

#include <algorithm>
#include <vector>

namespace decant::reference {

// Rows [first, first + rows) of a packed matrix.
inline Matrix unpack(const kernels::Matrix& packed, Index first, Index rows) {
  Matrix result(rows, packed.columns());
  std::vector<float> row(static_cast<std::size_t>(packed.columns()));
  for (Index r = 0; r < rows; ++r) {
    packed.row(first + r, row);
    std::copy(row.begin(), row.end(), result.row(r).begin());
  }
  return result;
}

inline Linear unpack(const model::Linear& packed, Index first, Index rows) {
  Linear result{unpack(packed.matrix, first, rows), {}};
  if (!packed.bias.empty()) {
    const auto from = packed.bias.begin() + first;
    result.bias.assign(from, from + rows);
  }
  return result;
}

inline NormWeights from_weights(const model::NormWeights& norm) {
  return {to_double(norm.weight), to_double(norm.bias)};
}

inline Layer from_weights(const model::Config& config, const model::LayerWeights& packed) {
  const Index query_rows = config.heads * config.key_dim;
  const Index key_rows = config.kv_heads * config.key_dim;
  const Index gate_rows = config.gated ? config.intermediate_size : 0;
  Layer layer;
  layer.attention_norm = from_weights(packed.attention_norm);
  layer.query = unpack(packed.qkv, 0, query_rows);
  layer.key = unpack(packed.qkv, query_rows, key_rows);
  layer.value = unpack(packed.qkv, query_rows + key_rows, config.kv_heads * config.value_dim);
  layer.query_norm = from_weights(packed.query_norm);
  layer.key_norm = from_weights(packed.key_norm);
  layer.attention_output = unpack(packed.attention_output, 0, config.hidden_size);
  layer.feed_forward_norm = from_weights(packed.feed_forward_norm);
  if (config.gated) layer.gate = unpack(packed.up, 0, gate_rows);
  layer.up = unpack(packed.up, gate_rows, config.intermediate_size);
  layer.down = unpack(packed.down, 0, config.hidden_size);
  return layer;
}

inline Model from_weights(const model::Config& config, const model::Weights& packed) {
  Model result;
  result.config = config;
  result.embedding = unpack(packed.embedding, 0, config.vocabulary);
  if (!packed.positions.empty()) {
    result.positions = Matrix(config.max_positions, config.hidden_size);
    result.positions.cells = to_double(packed.positions);
  }
  for (const model::LayerWeights& layer : packed.layers) {
    result.layers.push_back(from_weights(config, layer));
  }
  result.output_norm = from_weights(packed.output_norm);
  if (!packed.output.matrix.empty()) {
    result.output = unpack(packed.output, 0, config.vocabulary);
  }
  return result;
}

}  // namespace decant::reference
