// decant/checkpoints/detail/peft_config.hpp - what an adapter_config.json says about rank and
// scale.
//
// Source      Hugging Face PEFT, LoraConfig (field names and defaults), get_pattern_key()
// Tested by   tests/checkpoints/malformed_adapter_test.cpp
#pragma once

#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

// A number of all modules, and those of modules that are named.
struct PatternedNumber {
  double value = 0;
  std::vector<std::pair<std::string, double>> patterns;
};

struct PeftConfig {
  std::string file;
  PatternedNumber rank;
  PatternedNumber alpha;
  bool rank_stabilised = false;
  std::vector<std::string> targets;  // ends of module names; none if the file has a pattern instead
};

// Whether `name` is `end`, or ends with a dot and `end`.
inline bool names_module(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

// Fields that change nothing, or nothing that the tensors do not show.
inline constexpr std::array<std::string_view, 23> kPeftFields = {"alpha_pattern",
                                                                 "auto_mapping",
                                                                 "base_model_name_or_path",
                                                                 "bias",
                                                                 "eva_config",
                                                                 "exclude_modules",
                                                                 "fan_in_fan_out",
                                                                 "inference_mode",
                                                                 "init_lora_weights",
                                                                 "layers_pattern",
                                                                 "layers_to_transform",
                                                                 "lora_alpha",
                                                                 "lora_dropout",
                                                                 "megatron_core",
                                                                 "peft_type",
                                                                 "peft_version",
                                                                 "qalora_group_size",
                                                                 "r",
                                                                 "rank_pattern",
                                                                 "revision",
                                                                 "target_modules",
                                                                 "task_type",
                                                                 "use_rslora"};

// Whether a field says nothing: null, false, or an empty text, list or object.
inline bool says_nothing(const files::Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_null() || value == "" || (value.is_structured() && value.empty());
}

inline void refuse_unsupported_peft(const files::JsonObject& config) {
  for (const auto& [key, value] : config.json().items()) {
    const bool known = std::ranges::find(kPeftFields, key) != kPeftFields.end();
    expects<FormatError>(known || says_nothing(value), config.place(key),
                         " is set, which is not supported");
  }
  const auto only = [&](std::string_view key, std::string_view text, std::string_view otherwise) {
    const std::string value = config.text_or(key, otherwise);
    expects<FormatError>(value == text, config.place(key), " is \"", files::printable(value),
                         "\", which is not supported (", text, " is)");
  };
  only("peft_type", "LORA", "");
  only("bias", "none", "none");
  // Other ways to begin change the model's own weights too.
  const files::Json* begin = config.find("init_lora_weights");
  const bool plain = begin == nullptr || begin->is_boolean() || *begin == "gaussian" ||
                     *begin == "eva" || *begin == "orthogonal";
  expects<FormatError>(plain, config.place("init_lora_weights"), " is ",
                       begin == nullptr ? "" : files::printable(begin->dump()),
                       ", which is not supported (true, false, \"gaussian\", \"eva\" and "
                       "\"orthogonal\" are)");
}

// Patterns are names, perhaps behind a ^ that asks for the whole name; of regular expressions no
// more.
inline PatternedNumber patterned(const files::JsonObject& config, std::string_view key,
                                 std::string_view patterns, double otherwise) {
  PatternedNumber number;
  number.value = checked_positive(config.number_or(key, otherwise), config.place(key));
  const std::optional<files::JsonObject> list = config.object(patterns);
  if (!list) return number;
  for (const auto& [name, value] : list->json().items()) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    expects<FormatError>(name.find_first_not_of(kPlain, name.starts_with('^') ? 1 : 0) == name.npos,
                         list->place(name), " is a regular expression, which is not supported");
    number.patterns.emplace_back(name, checked_positive(list->number(name), list->place(name)));
  }
  return number;
}

inline PeftConfig parse_peft_config(std::string_view text, const std::string& file) {
  const files::Json json = files::parse_json(text, file);
  const files::JsonObject object(json, file);
  refuse_unsupported_peft(object);
  PeftConfig config{.file = file,
                    .rank = patterned(object, "r", "rank_pattern", 8),
                    .alpha = patterned(object, "lora_alpha", "alpha_pattern", 8),
                    .rank_stabilised = object.flag_or("use_rslora", false),
                    .targets = {}};
  const files::Json* targets = object.find("target_modules");
  if (targets == nullptr || targets->is_string()) return config;
  expects<FormatError>(targets->is_array(), object.place("target_modules"), " is ",
                       targets->type_name(), ", not a list or a string");
  for (const files::Json& target : *targets) {
    config.targets.push_back(files::JsonObject::as_text(target, object.place("target_modules")));
  }
  return config;
}

// The number of the module of that name.
//
// Errors   FormatError if two patterns disagree about it
inline double number_of(const PatternedNumber& number, std::string_view module,
                        std::string_view file) {
  std::optional<double> found;
  for (const auto& [pattern, value] : number.patterns) {
    const bool whole = pattern.starts_with('^');
    if (whole ? module != std::string_view(pattern).substr(1) : !names_module(module, pattern)) {
      continue;
    }
    expects<FormatError>(found.value_or(value) == value, file, ": two patterns give ",
                         files::printable(module), " ", found.value_or(value), " and ", value);
    found = value;
  }
  return found.value_or(number.value);
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
