// decant/checkpoints/detail/hf_fields.hpp - fields of a config.json that every family reads the
// same way.
//
// Each function reads one field, or two that belong together, and refuses by name what it cannot
// mean.
//
// Source      Hugging Face transformers, configuration_<family> (field names and defaults)
// Tested by   tests/checkpoints/hf_config_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

inline Index extent(const files::JsonObject& config, std::string_view key, Index value,
                    Index most = kMaxExtent) {
  return checked_extent(value, config.place(key), most);
}
inline Index extent(const files::JsonObject& config, std::string_view key) {
  return extent(config, key, config.integer(key));
}

inline float epsilon(const files::JsonObject& config, std::string_view key, double otherwise) {
  return checked_epsilon(config.number_or(key, otherwise), config.place(key));
}

inline model::Activation activation(const files::JsonObject& config, std::string_view key,
                                    std::string_view otherwise) {
  const std::string name = config.text_or(key, otherwise);
  if (name == "silu" || name == "swish") return model::Activation::silu;
  if (name == "gelu") return model::Activation::gelu;
  expects<FormatError>(name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast",
                       config.place(key), " is \"", files::printable(name),
                       "\", which is not supported");
  return model::Activation::gelu_tanh;
}

// Fields that change what a model computes in ways that this library does not.
inline void refuse_unsupported(const files::JsonObject& config) {
  for (std::string_view key :
       {"quantization_config", "attn_logit_softcapping", "final_logit_softcapping",
        "query_pre_attn_scalar", "no_rope_layers", "use_bidirectional_attention",
        "add_cross_attention", "is_encoder_decoder", "scale_attn_by_inverse_layer_idx"}) {
    const files::Json* value = config.find(key);
    const bool unset = value == nullptr || *value == false || *value == files::Json::object();
    expects<FormatError>(unset, config.place(key), " is set, which is not supported");
  }
}

// The window of layers that have one, 0 where no layer does.
inline Position sliding_window(const files::JsonObject& config, std::string_view family) {
  constexpr std::string_view kKey = "sliding_window";
  const bool mistral = family == "mistral";
  const bool qwen = family.starts_with("qwen") && config.flag_or("use_sliding_window", false);
  if (!mistral && !qwen) return 0;
  if (config.mentions(kKey) && !config.has(kKey)) return 0;
  return extent(config, kKey, config.integer_or(kKey, 4096));
}

// One window per layer; empty where every layer sees everything.
inline std::vector<Position> windows(const files::JsonObject& config, std::string_view family,
                                     Index layers) {
  const Position window = sliding_window(config, family);
  const Index first = family == "mistral" ? 0 : config.integer_or("max_window_layers", 28);
  std::vector<Position> result(static_cast<std::size_t>(layers), 0);
  for (Index layer = 0; layer < layers; ++layer) {
    if (layer >= first) result[static_cast<std::size_t>(layer)] = window;
  }
  if (const files::Json* types = config.find("layer_types")) {
    expects<FormatError>(types->is_array() && std::ssize(*types) == layers,
                         config.place("layer_types"), " is not a list of ", layers, " names");
    for (std::size_t layer = 0; layer < types->size(); ++layer) {
      const std::string type =
          files::JsonObject::as_text((*types)[layer], config.place("layer_types"));
      const bool slides = type == "sliding_attention" && window > 0;
      expects<FormatError>(slides || type == "full_attention", config.place("layer_types"),
                           " names \"", files::printable(type),
                           "\", for which there is no window or no support");
      result[layer] = slides ? window : 0;
    }
  }
  const bool unlimited = std::ranges::all_of(result, [](Position each) { return each == 0; });
  return unlimited ? std::vector<Position>{} : result;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
