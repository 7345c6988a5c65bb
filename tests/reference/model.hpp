// tests/reference/model.hpp - the parameters of a decoder as named matrices in double.
//
// The shape is the library's model::Config; the parameters lie as in a checkpoint, one matrix
// per name, each [outputs, inputs] row-major. random_model() makes values of at most eight
// significant bits, which f32, bf16 and f16 all hold exactly.
#pragma once

#include "reference/matrix.hpp"
#include "reference/norm.hpp"

#include <decant/model/config.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace decant::reference {

struct Layer {
  NormWeights attention_norm;
  Linear query;            // [heads * key_dim, hidden_size]
  Linear key;              // [kv_heads * key_dim, hidden_size]
  Linear value;            // [kv_heads * value_dim, hidden_size]
  NormWeights query_norm;  // [key_dim] each, empty for none
  NormWeights key_norm;
  Linear attention_output;  // [hidden_size, heads * value_dim]
  NormWeights feed_forward_norm;
  Linear gate;  // [intermediate_size, hidden_size], empty unless gated
  Linear up;    // [intermediate_size, hidden_size]
  Linear down;  // [hidden_size, intermediate_size]
};

struct Model {
  model::Config config;
  Matrix embedding;  // [vocabulary, hidden_size]
  Matrix positions;  // [max_positions, hidden_size], empty unless learned
  std::vector<Layer> layers;
  NormWeights output_norm;
  Linear output;  // [vocabulary, hidden_size], empty if tied to the embedding
};

// The k-th of a fixed sequence of values in [-0.5, 0.5), multiples of 2^-24.
inline double noise(std::uint64_t k) {
  std::uint64_t z = (k + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return static_cast<double>(z >> 40) * 0x1p-24 - 0.5;
}

// What a Config leaves open. Positions are learned if the Config has no rope.
struct Parts {
  bool biases = false;
  bool query_key_norm = false;
  bool tied = false;
};

// Draws the matrices of a random model one after another.
class RandomParts {
 public:
  RandomParts(const model::Config& config, std::uint64_t seed, const Parts& parts)
      : config_(config), parts_(parts), next_(seed << 32) {}

  Matrix matrix(Index rows, Index columns) {
    Matrix result(rows, columns);
    const int exponent = std::ilogb(std::sqrt(3.0 / static_cast<double>(columns)));
    for (double& cell : result.cells) cell = std::ldexp(step(), exponent);
    return result;
  }
  Linear linear(Index rows, Index columns) {
    Linear result{matrix(rows, columns), {}};
    if (parts_.biases) result.bias = vector(rows, 0.0);
    return result;
  }
  NormWeights norm(Index size) {
    const bool biased = config_.norm == model::Norm::layer;
    return {vector(size, 1.0), biased ? vector(size, 0.0) : Vector{}};
  }

  Layer layer() {
    const model::Config& c = config_;
    Layer result;
    result.attention_norm = norm(c.hidden_size);
    result.query = linear(c.heads * c.key_dim, c.hidden_size);
    result.key = linear(c.kv_heads * c.key_dim, c.hidden_size);
    result.value = linear(c.kv_heads * c.value_dim, c.hidden_size);
    if (parts_.query_key_norm) {
      result.query_norm.weight = vector(c.key_dim, 1.0);
      result.key_norm.weight = vector(c.key_dim, 1.0);
    }
    result.attention_output = linear(c.hidden_size, c.heads * c.value_dim);
    result.feed_forward_norm = norm(c.hidden_size);
    if (c.gated) result.gate = linear(c.intermediate_size, c.hidden_size);
    result.up = linear(c.intermediate_size, c.hidden_size);
    result.down = linear(c.hidden_size, c.intermediate_size);
    return result;
  }

 private:
  // A multiple of 2^-7 in [-1, 1).
  double step() { return std::floor(noise(next_++) * 256) / 128; }
  // Values within 1/4 of `middle`.
  Vector vector(Index size, double middle) {
    Vector result(static_cast<std::size_t>(size));
    for (double& value : result) value = middle + std::floor(step() * 16) / 64;
    return result;
  }

  model::Config config_;
  Parts parts_;
  std::uint64_t next_;
};

inline Model random_model(const model::Config& config, std::uint64_t seed,
                          const Parts& parts = {}) {
  RandomParts draw(config, seed, parts);
  Model result;
  result.config = config;
  result.embedding = draw.matrix(config.vocabulary, config.hidden_size);
  for (double& cell : result.embedding.cells) cell *= 4;
  if (!config.rope) result.positions = draw.matrix(config.max_positions, config.hidden_size);
  for (Index i = 0; i < config.layers; ++i) result.layers.push_back(draw.layer());
  result.output_norm = draw.norm(config.hidden_size);
  if (!parts.tied) result.output.matrix = draw.matrix(config.vocabulary, config.hidden_size);
  return result;
}

}  // namespace decant::reference
