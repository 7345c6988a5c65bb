// bench/support/shapes.hpp - the models that are timed.
#pragma once

#include <decant/model/config.hpp>

namespace decant::bench {

// SmolLM2 with 135 million parameters.
inline model::Config config_135m() {
  model::Config config;
  config.vocabulary = 49152;
  config.layers = 30;
  config.hidden_size = 576;
  config.heads = 9;
  config.kv_heads = 3;
  config.key_dim = 64;
  config.value_dim = 64;
  config.intermediate_size = 1536;
  config.max_positions = 8192;
  return config;
}

// Llama 3.2 with a billion parameters.
inline model::Config config_1b() {
  model::Config config;
  config.vocabulary = 128256;
  config.layers = 16;
  config.hidden_size = 2048;
  config.heads = 32;
  config.kv_heads = 8;
  config.key_dim = 64;
  config.value_dim = 64;
  config.intermediate_size = 8192;
  config.max_positions = 8192;
  return config;
}

}  // namespace decant::bench
