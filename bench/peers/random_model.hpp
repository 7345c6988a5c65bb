// bench/peers/random_model.hpp - a Llama model of a given shape with random weights, in memory.
//
// How long a step takes does not depend on what the weights are, so no file is read: rows are
// slices of one list of normal values, each from another offset, and the library packs and
// quantises them as it would those of a checkpoint.
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/random.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

namespace decant::bench {

// The shape as shapes.py writes it.
inline model::Config config_of(const nlohmann::json& shape, Index positions) {
  const auto number = [&](const char* name) { return shape.at(name).get<Index>(); };
  model::Config config;
  config.vocabulary = number("vocabulary");
  config.layers = number("layers");
  config.hidden_size = number("hidden_size");
  config.heads = number("heads");
  config.kv_heads = number("kv_heads");
  config.key_dim = number("head_dim");
  config.value_dim = number("head_dim");
  config.intermediate_size = number("intermediate_size");
  config.max_positions = positions;
  config.rope = attention::Rope{.theta = shape.at("rope_theta").get<double>()};
  return config;
}

// Value k of a list that is normal with deviation 0.02, by Box and Muller.
inline float normal(Index k) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(1, 0, k)));
  return static_cast<float>(0.02 * radius * std::cos(2 * std::numbers::pi * uniform(1, 1, k)));
}

class RandomWeights {
 public:
  // `widest` is the longest row that will be asked for.
  RandomWeights(codec::Type type, Index widest) : type_(type) {
    for (Index k = 0; k < kOffsets + widest; ++k) values_.push_back(normal(k));
  }

  // Every row is a view of its own, so that the matrix is packed without a copy of all of it.
  kernels::Matrix matrix(Index rows, Index columns) {
    std::vector<kernels::MatrixView> views;
    for (Index row = 0; row < rows; ++row) {
      offset_ = (offset_ + kStride) % kOffsets;
      views.push_back(kernels::row_major(values_.data() + offset_, codec::Type::f32, 1, columns));
    }
    return {views, type_};
  }
  model::Linear linear(Index rows, Index columns) { return {matrix(rows, columns), {}}; }

 private:
  static constexpr Index kOffsets = 1'048'573;  // prime, so that offsets repeat late
  static constexpr Index kStride = 611'953;

  codec::Type type_;
  Index offset_ = 0;
  std::vector<float> values_;
};

// The weights are tied: the embedding is the output.
inline model::Weights random_weights(const model::Config& config, codec::Type type) {
  RandomWeights draw(type, std::max({config.hidden_size, config.intermediate_size,
                                     config.heads * config.value_dim}));
  const model::NormWeights norm = {std::vector(static_cast<std::size_t>(config.hidden_size), 1.0f),
                                   {}};
  model::Weights weights;
  weights.embedding = draw.matrix(config.vocabulary, config.hidden_size);
  for (Index at = 0; at < config.layers; ++at) {
    model::LayerWeights layer;
    layer.attention_norm = norm;
    layer.qkv = draw.linear(config.qkv_size(), config.hidden_size);
    layer.attention_output = draw.linear(config.hidden_size, config.heads * config.value_dim);
    layer.feed_forward_norm = norm;
    layer.up = draw.linear(config.up_size(), config.hidden_size);
    layer.down = draw.linear(config.hidden_size, config.intermediate_size);
    weights.layers.push_back(std::move(layer));
  }
  weights.output_norm = norm;
  return weights;
}

}  // namespace decant::bench
