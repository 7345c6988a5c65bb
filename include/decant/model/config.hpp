// decant/model/config.hpp - the shape and the constants of one decoder-only transformer.
//
// One aggregate describes every family: what differs between Llama, Qwen, Gemma and GPT-2 is a
// value here, not a branch on a name. Defaults describe a Llama block.
//
// Tested by   tests/model/config_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/activation.hpp>
#include <decant/kv/geometry.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace decant::inline v0::model {

enum class Norm { rms, layer };
using kernels::Activation;

// Shape    sizes in elements; `heads` query heads share `kv_heads` key and value heads
// Units    windows and max_positions count tokens
struct Config {
  Index vocabulary = 0;
  Index layers = 0;
  Index hidden_size = 0;
  Index heads = 0;
  Index kv_heads = 0;
  Index key_dim = 0;            // of one head
  Index value_dim = 0;          // of one head
  Index intermediate_size = 0;  // inside the feed-forward block
  Index max_positions = 0;      // what the model was made for; a hard limit of learned positions

  Norm norm = Norm::rms;
  float norm_epsilon = 1e-5f;
  Activation activation = Activation::silu;
  bool gated = true;             // down(act(gate(x)) * up(x)), otherwise down(act(up(x)))
  float embedding_scale = 1.0f;  // multiplies the token embedding
  float score_scale = 0.0f;      // multiplies q.k; 0 means 1/sqrt(key_dim)

  std::optional<attention::Rope> rope = attention::Rope{};  // none where positions are learned
  std::vector<Position> windows = {};  // one per layer, 0 = unlimited; empty = all unlimited
  // Seen beyond every window by all rows, rotated as if right before it (StreamingLLM);
  // learned positions stay what they are.
  Index sink_tokens = 0;

  friend bool operator==(const Config&, const Config&) = default;

  float effective_score_scale() const noexcept {
    return score_scale != 0.0f ? score_scale : 1.0f / std::sqrt(static_cast<float>(key_dim));
  }
  // That of the layer that looks back the furthest.
  Position widest_window() const noexcept {
    if (windows.empty() || std::ranges::min(windows) == 0) return 0;
    return std::ranges::max(windows);
  }
  // Whether rows of a layer see tokens beside those of its window.
  bool has_sink_tokens(Index layer) const noexcept { return sink_tokens > 0 && window(layer) > 0; }
  Position window(Index layer) const noexcept {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
  }
  // Elements of one row of stacked queries, keys and values; and of the gate and up projections.
  Index qkv_size() const noexcept { return (heads + kv_heads) * key_dim + kv_heads * value_dim; }
  Index up_size() const noexcept { return gated ? 2 * intermediate_size : intermediate_size; }
  kv::Geometry geometry() const {
    return {.layers = layers, .heads = kv_heads, .key_dim = key_dim, .value_dim = value_dim};
  }
};

// Refuses a configuration that contradicts itself.
//
// Errors   std::invalid_argument naming the field and its value
inline void check(const Config& config) {
  const auto positive = [](Index value, const char* name) {
    expects(value > 0, "model::Config: ", name, " is ", value, ", not positive");
    expects(value <= Index{1} << 31, "model::Config: ", name, " is ", value, ", beyond 2^31");
  };
  positive(config.vocabulary, "vocabulary");
  positive(config.layers, "layers");
  positive(config.hidden_size, "hidden_size");
  positive(config.heads, "heads");
  positive(config.kv_heads, "kv_heads");
  positive(config.key_dim, "key_dim");
  positive(config.value_dim, "value_dim");
  positive(config.intermediate_size, "intermediate_size");
  positive(config.max_positions, "max_positions");
  expects(config.heads % config.kv_heads == 0, "model::Config: ", config.heads,
          " heads are not divisible by ", config.kv_heads, " kv_heads");
  expects(std::isfinite(config.norm_epsilon) && config.norm_epsilon >= 0,
          "model::Config: norm_epsilon is ", config.norm_epsilon);
  expects(std::isfinite(config.embedding_scale) && std::isfinite(config.score_scale),
          "model::Config: a scale is not finite");
  expects(config.windows.empty() || std::ssize(config.windows) == config.layers,
          "model::Config: ", config.windows.size(), " windows for ", config.layers, " layers");
  for (Position window : config.windows) {
    expects(window >= 0 && window <= Index{1} << 31, "model::Config: a window of ", window,
            " tokens");
  }
  expects(config.sink_tokens >= 0 && config.sink_tokens <= Index{1} << 31,
          "model::Config: sink_tokens is ", config.sink_tokens);
  if (config.rope) attention::check(*config.rope, config.key_dim);
  checked_product({config.vocabulary, config.hidden_size, 4});
  checked_product({config.heads, config.key_dim + config.value_dim, config.hidden_size, 4});
  checked_product({config.intermediate_size, config.hidden_size, 8});
  static_cast<void>(config.geometry().cells_per_token());
}

}  // namespace decant::inline v0::model
