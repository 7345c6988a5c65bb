// decant/checkpoints/detail/hf_rope.hpp - what a config.json says about rotary positions.
//
// There are three spellings: `rope_theta` beside `rope_scaling` with a "type", the same with a
// "rope_type", and everything together in `rope_parameters`. A rule that is not known, or two
// spellings that disagree, is refused: a wrong rotation reads fluently for a page and then not.
//
// Source      Hugging Face transformers, modeling_rope_utils (field names and defaults)
// Tested by   tests/checkpoints/hf_rope_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace decant::inline DECANT_ABI::checkpoints::detail {

inline double positive_number(const files::JsonObject& object, std::string_view key) {
  return checked_positive(object.number(key), object.place(key));
}

// The value of `key` inside the rotary rules, else of the configuration, else `otherwise`.
inline double rope_number(const files::JsonObject& config,
                          const std::optional<files::JsonObject>& rules, std::string_view key,
                          double otherwise) {
  const double outer = checked_positive(config.number_or(key, otherwise), config.place(key));
  if (!rules || !rules->has(key)) return outer;
  const double inner = positive_number(*rules, key);
  expects<FormatError>(!config.has(key) || inner == outer, rules->place(key), " is ", inner,
                       " but ", key, " is ", outer);
  return inner;
}

// Which rule is meant; "default" where none is named.
inline std::string rope_rule(const files::JsonObject& rules) {
  const std::string rule = rules.text_or("rope_type", rules.text_or("type", "default"));
  expects<FormatError>(rules.text_or("type", rule) == rule, rules.place("rope_type"), " is \"",
                       files::printable(rule), "\" but type is \"",
                       files::printable(rules.text_or("type", rule)), "\"");
  expects<FormatError>(rules.has("rope_type") || rules.has("type") || !rules.has("factor"),
                       rules.place("rope_type"), " is absent beside a factor");
  return rule;
}

inline attention::Scaling rope_scaling(const files::JsonObject& config,
                                       const files::JsonObject& rules) {
  const std::string rule = rope_rule(rules);
  if (rule == "default") return attention::Unscaled{};
  if (rule == "linear") return attention::LinearScaling{positive_number(rules, "factor")};
  expects<FormatError>(rule == "llama3", rules.place("rope_type"), " is \"", files::printable(rule),
                       "\", which is not supported (default, linear and llama3 are)");
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  return attention::Llama3Scaling{
      .factor = positive_number(rules, "factor"),
      .low_frequency_factor = positive_number(rules, "low_freq_factor"),
      .high_frequency_factor = positive_number(rules, "high_freq_factor"),
      .original_positions = positive_number(rules.has(kOriginal) ? rules : config, kOriginal)};
}

// The one object that holds the rotary rules, if any does.
inline std::optional<files::JsonObject> rope_rules(const files::JsonObject& config) {
  const std::optional<files::JsonObject> scaling = config.object("rope_scaling");
  const std::optional<files::JsonObject> parameters = config.object("rope_parameters");
  expects<FormatError>(!scaling || !parameters || scaling->json() == parameters->json(),
                       config.place("rope_parameters"), " and rope_scaling disagree");
  const std::optional<files::JsonObject>& rules = parameters ? parameters : scaling;
  if (!rules) return std::nullopt;
  for (const auto& [key, value] : rules->json().items()) {
    expects<FormatError>(!value.is_object(), rules->place(key),
                         " is a rule for some layers only, which is not supported");
  }
  return rules;
}

// The rotation of heads of `head_dim`.
//
// Errors   FormatError naming file and field
inline attention::Rope read_rope(const files::JsonObject& config, Index head_dim) {
  const std::optional<files::JsonObject> rules = rope_rules(config);
  attention::Rope rope{.theta = rope_number(config, rules, "rope_theta", 10000.0)};
  const double part = rope_number(config, rules, "partial_rotary_factor", 1.0);
  expects<FormatError>(part <= 1, config.place("partial_rotary_factor"), " is ", part,
                       ", more than the whole head");
  rope.rotary_dim = static_cast<Index>(static_cast<double>(head_dim) * part);
  expects<FormatError>(rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0, config.file(),
                       ": the rotary part of a head would be ", rope.rotary_dim, " of ", head_dim,
                       " elements, not an even number (head_dim, partial_rotary_factor)");
  if (rules) rope.scaling = rope_scaling(config, *rules);
  return rope;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
