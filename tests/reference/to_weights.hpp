// tests/reference/to_weights.hpp - the same parameters in the library's packed form.
#pragma once

#include "reference/model.hpp"

#include <decant/model/weights.hpp>

#include <vector>

namespace decant::reference {

// The matrices stacked along their rows, every element stored as `type`.
inline kernels::Matrix pack(std::span<const Matrix* const> stacked, codec::Type type) {
  std::vector<std::vector<float>> elements;
  std::vector<kernels::MatrixView> views;
  for (const Matrix* matrix : stacked) {
    elements.push_back(to_float(matrix->cells));
    views.push_back(kernels::row_major(elements.back().data(), codec::Type::f32, matrix->rows,
                                       matrix->columns));
  }
  return {views, type};
}

inline model::Linear pack_linear(std::span<const Linear* const> stacked, codec::Type type) {
  model::Linear result;
  std::vector<const Matrix*> matrices;
  for (const Linear* linear : stacked) {
    matrices.push_back(&linear->matrix);
    const std::vector<float> bias = to_float(linear->bias);
    result.bias.insert(result.bias.end(), bias.begin(), bias.end());
  }
  result.matrix = pack(matrices, type);
  return result;
}

inline model::NormWeights to_weights(const NormWeights& norm) {
  return {to_float(norm.weight), to_float(norm.bias)};
}

inline model::LayerWeights to_weights(const Layer& layer, codec::Type type) {
  const auto linear = [&](std::vector<const Linear*> stacked) {
    return pack_linear(stacked, type);
  };
  model::LayerWeights result;
  result.attention_norm = to_weights(layer.attention_norm);
  result.qkv = linear({&layer.query, &layer.key, &layer.value});
  result.query_norm = to_weights(layer.query_norm);
  result.key_norm = to_weights(layer.key_norm);
  result.attention_output = linear({&layer.attention_output});
  result.feed_forward_norm = to_weights(layer.feed_forward_norm);
  result.up = layer.gate.empty() ? linear({&layer.up}) : linear({&layer.gate, &layer.up});
  result.down = linear({&layer.down});
  return result;
}

// Norms, biases and learned positions stay f32, as in the library.
inline model::Weights to_weights(const Model& model, codec::Type type = codec::Type::f32) {
  const auto matrix = [&](const Matrix& one) {
    const Matrix* list[] = {&one};
    return pack(list, type);
  };
  model::Weights result;
  result.embedding = matrix(model.embedding);
  result.positions = to_float(model.positions.cells);
  for (const Layer& layer : model.layers) result.layers.push_back(to_weights(layer, type));
  result.output_norm = to_weights(model.output_norm);
  if (!model.output.empty()) result.output.matrix = matrix(model.output.matrix);
  result.output.bias = to_float(model.output.bias);
  return result;
}

}  // namespace decant::reference
