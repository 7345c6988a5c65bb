// tests/reference/toy.hpp - a small Llama-shaped model whose answers are known.
//
// A vocabulary of 64, hidden size 32, two layers, four heads on two key and value heads of 8. One
// counter runs through all matrices in the order below, so any program can make the same weights.
#pragma once

#include "reference/model.hpp"

#include <array>
#include <cmath>
#include <vector>

namespace decant::reference {

inline model::Config toy_config() {
  model::Config config;
  config.vocabulary = 64;
  config.layers = 2;
  config.hidden_size = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.key_dim = 8;
  config.value_dim = 8;
  config.intermediate_size = 48;
  config.max_positions = 4096;
  return config;
}

// Shape    windows: one per layer, 0 = unlimited, or empty
inline Model toy(std::vector<Position> windows = {}) {
  std::uint64_t next = 0;
  const auto fill = [&](Index rows, Index columns, double amplitude) {
    Matrix result(rows, columns);
    for (double& cell : result.cells) {
      cell = static_cast<double>(static_cast<float>(noise(next++) * 2 * amplitude));
    }
    return result;
  };
  const auto linear = [&](Index rows, Index columns) {
    return Linear{fill(rows, columns, std::sqrt(3.0 / static_cast<double>(columns))), {}};
  };
  const NormWeights ones{Vector(32, 1.0), {}};
  Model model;
  model.config = toy_config();
  model.config.windows = std::move(windows);
  model.embedding = fill(64, 32, 1.0);
  for (int i = 0; i < 2; ++i) {
    Layer layer{.attention_norm = ones,
                .query = linear(32, 32),
                .key = linear(16, 32),
                .value = linear(16, 32),
                .query_norm = {},
                .key_norm = {},
                .attention_output = linear(32, 32),
                .feed_forward_norm = ones,
                .gate = linear(48, 32),
                .up = linear(48, 32),
                .down = linear(32, 48)};
    model.layers.push_back(std::move(layer));
  }
  model.output_norm = ones;
  model.output = linear(64, 32);
  return model;
}

// What the model says about one prompt.
struct ToyAnswer {
  std::vector<Position> windows;
  std::vector<Token> prompt;
  std::array<double, 4> first_logits;  // of tokens 0 to 3, after the last token of the prompt
  double absolute_sum;                 // of all 64 logits there
  std::vector<Token> greedy;           // the eight tokens that follow
};

inline std::vector<Token> count_up(Token from, Token end) {
  std::vector<Token> tokens;
  for (Token token = from; token < end; ++token) tokens.push_back(token);
  return tokens;
}

inline std::vector<ToyAnswer> toy_answers() {
  const std::vector<Token> eight = count_up(1, 9);
  const std::vector<Token> long_prompt = count_up(0, 24);
  return {
      {{},
       {5, 6, 7, 8, 9},
       {-0.711951, 0.172206, 0.342337, -1.346404},
       50.578863,
       {24, 17, 63, 23, 45, 46, 4, 0}},
      {{},
       {11, 12},
       {0.314151, -1.956861, -2.533757, -0.013138},
       44.749427,
       {19, 29, 19, 36, 19, 29, 19, 36}},
      {{},
       eight,
       {-1.039557, 0.186695, -1.920771, 0.691981},
       51.742186,
       {53, 17, 22, 28, 17, 22, 28, 14}},
      {{},
       long_prompt,
       {-0.753599, -0.076746, -0.994498, 0.787422},
       44.285434,
       {57, 19, 53, 28, 37, 19, 53, 28}},
      {{4, 0},
       eight,
       {-2.103150, 0.020713, -1.524635, 0.325159},
       53.096426,
       {13, 56, 24, 19, 56, 39, 1, 46}},
      {{4, 0},
       long_prompt,
       {-0.740871, 0.039241, -1.083316, 1.553486},
       51.971411,
       {57, 59, 28, 37, 7, 56, 53, 17}},
      {{4, 4},
       eight,
       {-1.996933, -0.174703, -1.322977, 0.052341},
       52.613699,
       {24, 35, 56, 7, 26, 10, 39, 1}},
      {{4, 4},
       long_prompt,
       {-0.147004, -0.858976, -0.369040, 1.622694},
       51.039148,
       {13, 62, 19, 37, 29, 53, 53, 28}},
  };
}

}  // namespace decant::reference
