// bench/peers/random_model.hpp - a Llama model of a given shape with random weights, in memory.
//
// How long a step takes does not depend on what the weights are, so no file is read: rows are
// runs of one list of normal numbers, each from another place, and the library packs and quantises
// them as it would those of a checkpoint.
//
// Depends on  core/random.hpp, model/config.hpp, model/weights.hpp, nlohmann/json
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
  config.hidden_size = number("width");
  config.heads = number("heads");
  config.kv_heads = number("kv_heads");
  config.key_dim = number("head_dim");
  config.value_dim = number("head_dim");
  config.intermediate_size = number("feed_forward");
  config.max_positions = positions;
  config.rope = attention::Rope{.theta = shape.at("rope_theta").get<double>()};
  return config;
}

// Number k of a list that is normal with deviation 0.02, by Box and Muller.
inline float normal(Index k) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(1, 0, k)));
  return static_cast<float>(0.02 * radius * std::cos(2 * std::numbers::pi * uniform(1, 1, k)));
}

class RandomWeights {
 public:
  // `widest` is the longest row that will be asked for.
  RandomWeights(codec::Type type, Index widest) : type_(type) {
    for (Index k = 0; k < kPlaces + widest; ++k) numbers_.push_back(normal(k));
  }

  // Every row a view of its own, so that no copy of the whole is needed before it is packed.
  kernels::Matrix matrix(Index rows, Index columns) {
    std::vector<kernels::MatrixView> views;
    for (Index row = 0; row < rows; ++row) {
      place_ = (place_ + kStride) % kPlaces;
      views.push_back(kernels::row_major(numbers_.data() + place_, codec::Type::f32, 1, columns));
    }
    return {views, type_};
  }
  model::Linear linear(Index rows, Index columns) { return {matrix(rows, columns), {}}; }

 private:
  static constexpr Index kPlaces = 1'048'573;  // prime, so that places come back late
  static constexpr Index kStride = 611'953;

  codec::Type type_;
  Index place_ = 0;
  std::vector<float> numbers_;
};

// Tied: the embedding is the output.
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
