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
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace decant::inline DECANT_ABI::model {

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
  Activation activation = Activation::silu;
  bool gated = true;  // down(act(gate(x)) * up(x)), otherwise down(act(up(x)))
  float norm_epsilon = 1e-5f;
  float embedding_scale = 1.0f;  // multiplies the token embedding
  float score_scale = 0.0f;      // multiplies q.k; 0 means 1/sqrt(key_dim)

  std::vector<Position> windows = {};  // one per layer, 0 = unlimited; empty = all unlimited
  // Seen beyond every window by all rows, rotated as if right before it (StreamingLLM);
  // learned positions stay what they are.
  Index sink_tokens = 0;
  std::optional<attention::Rope> rope = attention::Rope{};  // none if positions are learned

  friend bool operator==(const Config&, const Config&) = default;

  float effective_score_scale() const noexcept {
    return score_scale != 0.0f ? score_scale : 1.0f / std::sqrt(static_cast<float>(key_dim));
  }
  // The largest window of a layer; 0 if one has none.
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

// One member of a Config.
template <class T>
struct Field {
  std::string_view name;
  const T& value;
};
template <class T>
Field(std::string_view, const T&) -> Field<T>;

// The members of a configuration, in order and by reference: the one list from which fingerprints,
// printing and checks come. Another number of members does not compile.
inline auto fields(const Config& config) {
  const auto& [vocabulary, layers, hidden_size, heads, kv_heads, key_dim, value_dim,
               intermediate_size, max_positions, norm, activation, gated, norm_epsilon,
               embedding_scale, score_scale, windows, sink_tokens, rope] = config;
  return std::tuple{
      Field{"vocabulary", vocabulary},       Field{"layers", layers},
      Field{"hidden_size", hidden_size},     Field{"heads", heads},
      Field{"kv_heads", kv_heads},           Field{"key_dim", key_dim},
      Field{"value_dim", value_dim},         Field{"intermediate_size", intermediate_size},
      Field{"max_positions", max_positions}, Field{"norm", norm},
      Field{"activation", activation},       Field{"gated", gated},
      Field{"norm_epsilon", norm_epsilon},   Field{"embedding_scale", embedding_scale},
      Field{"score_scale", score_scale},     Field{"windows", windows},
      Field{"sink_tokens", sink_tokens},     Field{"rope", rope}};
}
static_assert(std::tuple_size_v<decltype(fields(Config{}))> == 18, "a member is not in the list");

// f(field) for each member.
template <class F>
void for_each_field(const Config& config, F&& f) {
  std::apply([&](const auto&... field) { (f(field), ...); }, fields(config));
}

namespace detail {

// What every member of a type must be, whatever it means.
inline void check(const Field<Index>& field, bool may_be_zero) {
  expects(field.value > 0 || (may_be_zero && field.value == 0), "model::Config: ", field.name,
          " is ", field.value, may_be_zero ? ", negative" : ", not positive");
  expects(field.value <= Index{1} << 31, "model::Config: ", field.name, " is ", field.value,
          ", beyond 2^31");
}
inline void check(const Field<float>& field, bool) {
  expects(std::isfinite(field.value), "model::Config: ", field.name, " is ", field.value,
          ", not finite");
}
template <class T>
void check(const Field<T>&, bool) {}  // flags, names, lists and rules

inline std::string text_of(bool value) { return value ? "true" : "false"; }
template <class T>
requires std::is_arithmetic_v<T>
std::string text_of(T value) {
  return sentence(value);
}
template <class E>
requires std::is_enum_v<E>
std::string text_of(E value) {
  return sentence(static_cast<int>(value));
}
inline std::string text_of(const std::vector<Position>& windows) {
  std::string text = "[";
  for (Position window : windows) text += sentence(text.size() > 1 ? ", " : "", window);
  return text + "]";
}
inline std::string text_of(const std::optional<attention::Rope>& rope) {
  if (!rope) return "none";
  return sentence("{rotary_dim ", rope->rotary_dim, ", theta ", rope->theta, ", pairing ",
                  text_of(rope->pairing), ", scaling ", rope->scaling.index(), "}");
}

}  // namespace detail

// One line: "vocabulary 32000, layers 16, ...". Enumerators are integers, in their order.
inline std::string to_string(const Config& config) {
  std::string text;
  for_each_field(config, [&](const auto& field) {
    text += sentence(text.empty() ? "" : ", ", field.name, " ", detail::text_of(field.value));
  });
  return text;
}

// Refuses a configuration that contradicts itself.
//
// Errors   std::invalid_argument naming the field and its value
inline void check(const Config& config) {
  for_each_field(config, [&](const auto& field) {
    detail::check(field, static_cast<const void*>(&field.value) == &config.sink_tokens);
  });
  expects(config.heads % config.kv_heads == 0, "model::Config: ", config.heads,
          " heads are not divisible by ", config.kv_heads, " kv_heads");
  expects(config.norm_epsilon >= 0, "model::Config: norm_epsilon is ", config.norm_epsilon);
  expects(config.windows.empty() || std::ssize(config.windows) == config.layers,
          "model::Config: ", config.windows.size(), " windows for ", config.layers, " layers");
  for (Position window : config.windows) {
    expects(window >= 0 && window <= Index{1} << 31, "model::Config: a window of ", window,
            " tokens");
  }
  if (config.rope) attention::check(*config.rope, config.key_dim);
  checked_product({config.vocabulary, config.hidden_size, 4});
  checked_product({config.heads, config.key_dim + config.value_dim, config.hidden_size, 4});
  checked_product({config.intermediate_size, config.hidden_size, 8});
  static_cast<void>(config.geometry().cells_per_token());
}

}  // namespace decant::inline DECANT_ABI::model
