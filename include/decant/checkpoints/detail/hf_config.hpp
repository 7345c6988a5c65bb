// decant/checkpoints/detail/hf_config.hpp - a Hugging Face config.json as a model::Config.
//
// A family is a row of defaults and a few rules, not a branch per field. A field that a file leaves
// out has the default of the family's class in transformers, which wrote the file. A field that
// this library cannot honour is refused by name: ignored silently, it would give a wrong model.
// `tie_word_embeddings` overrides the first column.
//
//   model_type   output tied   windows                      biases
//   llama        no            none                         attention_bias, mlp_bias
//   mistral      no            sliding_window, all layers   attention_bias
//   qwen2        no            if use_sliding_window        q, k, v
//   qwen3        no            if use_sliding_window        attention_bias
//   gemma        yes           none                         attention_bias
//   gpt2         yes           none                         everywhere
//
// Source      Hugging Face transformers, configuration_<family> and modeling_<family>
// Tested by   tests/checkpoints/hf_config_test.cpp, malformed_config_test.cpp,
// tests/fuzz/config_target.hpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/checkpoints/detail/hf_fields.hpp>
#include <decant/checkpoints/detail/hf_rope.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/utf8.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// What a file of this family means if a field is absent; 0: it follows from the other fields.
struct HfFamily {
  std::string_view name;
  Index kv_heads = 0;
  Index head_dim = 0;
  Index max_positions = 0;
  bool tied = false;
  bool query_key_norm = false;
};

inline constexpr std::array kHfFamilies = {
    HfFamily{.name = "llama", .max_positions = 2048},
    HfFamily{.name = "mistral", .kv_heads = 8, .max_positions = 131072},
    HfFamily{.name = "qwen2", .kv_heads = 32, .max_positions = 32768},
    HfFamily{.name = "qwen3",
             .kv_heads = 32,
             .head_dim = 128,
             .max_positions = 32768,
             .query_key_norm = true},
    HfFamily{.name = "gemma", .kv_heads = 16, .head_dim = 256, .max_positions = 8192, .tied = true},
};

// If it is absent, the default of the family's class, if it has one; else hidden_size / heads.
inline Index head_dim(const files::JsonObject& config, const HfFamily& family,
                      const model::Config& model) {
  if (config.has("head_dim")) return extent(config, "head_dim");
  if (!config.mentions("head_dim") && family.head_dim > 0) return family.head_dim;
  return default_head_dim(model, config.place("hidden_size"), "head_dim");
}

inline void read_llama_sizes(const files::JsonObject& config, const HfFamily& family,
                             model::Config& model) {
  model.vocabulary = extent(config, "vocab_size");
  model.layers =
      extent(config, "num_hidden_layers", config.integer("num_hidden_layers"), kMaxLayers);
  model.hidden_size = extent(config, "hidden_size");
  model.heads = extent(config, "num_attention_heads");
  const bool silent = !config.mentions("num_key_value_heads") && family.kv_heads > 0;
  model.kv_heads =
      extent(config, "num_key_value_heads",
             config.integer_or("num_key_value_heads", silent ? family.kv_heads : model.heads));
  check_groups(model, config.place("num_attention_heads"));
  model.key_dim = model.value_dim = head_dim(config, family, model);
  model.intermediate_size = extent(config, "intermediate_size");
  model.max_positions = extent(config, "max_position_embeddings",
                               config.integer_or("max_position_embeddings", family.max_positions));
}

inline CheckpointConfig read_llama(const files::JsonObject& config, const HfFamily& family) {
  CheckpointConfig result;
  model::Config& model = result.model;
  read_llama_sizes(config, family, model);
  model.norm_epsilon = epsilon(config, "rms_norm_eps", 1e-6);
  const bool gemma = family.name == "gemma";
  // Gemma's `hidden_act` says "gelu" and means its tanh form; `hidden_activation` overrides it.
  model.activation = gemma ? activation(config, "hidden_activation", "gelu_pytorch_tanh")
                           : activation(config, "hidden_act", "silu");
  if (gemma) model.embedding_scale = gemma_embedding_scale(model);
  model.rope = read_rope(config, model.key_dim);
  model.windows = windows(config, family.name, model.layers);
  const bool biased = config.flag_or("attention_bias", false);
  const bool qwen2 = family.name == "qwen2";
  result.qkv_bias = qwen2 || biased;
  result.attention_output_bias = !qwen2 && biased;
  result.feed_forward_bias = family.name == "llama" && config.flag_or("mlp_bias", false);
  result.query_key_norm = family.query_key_norm;
  result.norm_plus_one = gemma;
  result.tied = config.flag_or("tie_word_embeddings", family.tied);
  return result;
}

inline CheckpointConfig read_gpt2(const files::JsonObject& config) {
  CheckpointConfig result;
  result.naming = Naming::gpt2;
  model::Config& model = result.model;
  model.vocabulary = extent(config, "vocab_size");
  model.layers = extent(config, "n_layer", config.integer("n_layer"), kMaxLayers);
  model.hidden_size = extent(config, "n_embd");
  model.heads = model.kv_heads = extent(config, "n_head");
  model.key_dim = model.value_dim = default_head_dim(model, config.place("n_embd"), "");
  model.intermediate_size = extent(
      config, "n_inner", config.integer_or("n_inner", 4 * model.hidden_size), 4 * kMaxExtent);
  model.max_positions = extent(config, "n_positions");
  model.norm = model::Norm::layer;
  model.norm_epsilon = epsilon(config, "layer_norm_epsilon", 1e-5);
  model.activation = activation(config, "activation_function", "gelu_new");
  model.gated = false;
  model.rope.reset();
  if (!config.flag_or("scale_attn_weights", true)) model.score_scale = 1.0f;
  result.qkv_bias = result.attention_output_bias = result.feed_forward_bias = true;
  result.tied = config.flag_or("tie_word_embeddings", true);
  return result;
}

// Whether the class that the file names is one that generates text; without a class it is.
inline bool has_output(const files::JsonObject& config) {
  const files::Json* classes = config.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty()) return true;
  const std::string name = classes->front().is_string() ? classes->front().get<std::string>() : "";
  return !name.ends_with("Model") && !name.ends_with("ForSequenceClassification");
}

inline CheckpointConfig read_family(const files::JsonObject& config) {
  const std::string type = config.text("model_type");
  if (type == "gpt2") return read_gpt2(config);
  const auto family = std::ranges::find(kHfFamilies, std::string_view(type), &HfFamily::name);
  expects<FormatError>(family != kHfFamilies.end(), config.place("model_type"), " is \"",
                       files::printable(type),
                       "\", which is not supported (llama, mistral, qwen2, qwen3, gemma and gpt2 "
                       "are)");
  return read_llama(config, *family);
}

// The ids under `key` (one, a list, or none), without those that no text can contain.
inline std::vector<Token> token_ids(const files::JsonObject& object, std::string_view key,
                                    CheckpointConfig& config) {
  std::vector<Token> ids;
  const auto add = [&](const files::Json& value) {
    const Index id = files::JsonObject::as_integer(value, object.place(key));
    if (const auto token = special_token(config, id, object.place(key))) ids.push_back(*token);
  };
  if (const files::Json* value = object.find(key)) {
    if (!value->is_array()) {
      add(*value);
    } else {
      for (const files::Json& item : *value) add(item);
    }
  }
  return ids;
}

inline void read_special_tokens(const files::JsonObject& object, CheckpointConfig& config) {
  if (object.has("eos_token_id")) config.end_tokens = token_ids(object, "eos_token_id", config);
  const std::vector<Token> begin = token_ids(object, "bos_token_id", config);
  if (!begin.empty()) config.begin_token = begin.front();
}

// The configuration that `text` writes down; `file` is how sentences name the source.
//
// Errors   FormatError naming file and field
inline CheckpointConfig parse_hf_config(std::string_view text, const std::string& file) {
  const files::Json json = files::parse_json(files::quote_non_finite(text), file);
  const files::JsonObject object(json, file);
  CheckpointConfig config = read_family(object);
  config.has_output = has_output(object);
  refuse_unsupported(object);
  read_special_tokens(object, config);
  try {
    model::check(config.model);
  } catch (const std::invalid_argument& error) {
    throw FormatError(sentence(file, ": contradicts itself: ", error.what()));
  }
  return config;
}

// Takes the special tokens of a generation_config.json, where it names some.
//
// Errors   FormatError naming file and field
inline void apply_generation_config(std::string_view text, const std::string& file,
                                    CheckpointConfig& config) {
  const files::Json json = files::parse_json(files::quote_non_finite(text), file);
  read_special_tokens(files::JsonObject(json, file), config);
}

// The configuration in `folder`: config.json, and generation_config.json where it exists.
//
// Errors   FormatError naming file and field
inline CheckpointConfig read_hf_config(const std::filesystem::path& folder) {
  const files::MappedFile file(folder / "config.json");
  CheckpointConfig config = parse_hf_config(file.text(), files::printable_path(file.path()));
  std::error_code ignored;
  const std::filesystem::path path = folder / "generation_config.json";
  if (std::filesystem::exists(path, ignored)) {
    const files::MappedFile generation(path);
    apply_generation_config(generation.text(), files::printable_path(path), config);
  }
  return config;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
