// tests/decoding/models.hpp - decoders for the tests of generation: a toy model, and one that
// recites a script.
#pragma once

#include "reference/to_weights.hpp"
#include "reference/toy.hpp"

#include <decant/model/decoder.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::reference {

inline model::Decoder toy_decoder(std::vector<Position> windows = {}) {
  const Model model = toy(std::move(windows));
  return {model.config, to_weights(model)};
}

// After any token at position p the best next token is script[p + 1]; all others are equal. The
// layer adds nothing, and the learned positions are the rows of an identity.
inline model::Decoder reciting_decoder(std::span<const Token> script, Index vocabulary) {
  const Index positions = std::ssize(script);
  Model model;
  model::Config& config = model.config;
  config = {.vocabulary = vocabulary,
            .layers = 1,
            .hidden_size = positions,
            .heads = 1,
            .kv_heads = 1,
            .key_dim = 4,
            .value_dim = 4,
            .intermediate_size = 4,
            .max_positions = positions,
            .gated = false,
            .windows = {},
            .rope = std::nullopt};
  const auto zeros = [](Index rows, Index columns) { return Linear{Matrix(rows, columns), {}}; };
  const NormWeights ones{Vector(script.size(), 1.0), {}};
  model.embedding = Matrix(vocabulary, positions);
  model.positions = Matrix(positions, positions);
  model.output = zeros(vocabulary, positions);
  for (Index at = 0; at < positions; ++at) {
    model.positions.row(at)[static_cast<std::size_t>(at)] = 1.0;
    if (at == 0) continue;
    const Token next = script[static_cast<std::size_t>(at)];
    model.output.matrix.row(next)[static_cast<std::size_t>(at - 1)] = 1.0;
  }
  model.output_norm = ones;
  model.layers.push_back({.attention_norm = ones,
                          .query = zeros(4, positions),
                          .key = zeros(4, positions),
                          .value = zeros(4, positions),
                          .query_norm = {},
                          .key_norm = {},
                          .attention_output = zeros(positions, 4),
                          .feed_forward_norm = ones,
                          .gate = {},
                          .up = zeros(4, positions),
                          .down = zeros(positions, 4)});
  return {config, to_weights(model)};
}

}  // namespace decant::reference
