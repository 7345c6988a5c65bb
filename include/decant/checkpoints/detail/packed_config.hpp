// decant/checkpoints/detail/packed_config.hpp - what a packed checkpoint says about its model, as
// JSON.
//
// A packed file holds the configuration itself, field by field, not the file that it was read from:
// it opens in the same way whatever was packed. Values are written so that they read back the
// same.
//
// Tested by   tests/checkpoints/packed_checkpoint_test.cpp, tests/fuzz/packed_target.hpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/checkpoints/checkpoint.hpp>
#include <decant/checkpoints/detail/checkpoint_config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/json.hpp>
#include <decant/model/config.hpp>

#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints::detail {

constexpr model::Norm last_of(model::Norm) { return model::Norm::layer; }
constexpr model::Activation last_of(model::Activation) { return model::Activation::gelu_tanh; }
constexpr attention::Pairing last_of(attention::Pairing) { return attention::Pairing::interleaved; }

template <class E>
requires std::is_enum_v<E>
files::Json to_json(E value) {
  return static_cast<int>(value);
}
template <class T>
requires std::is_arithmetic_v<T>
files::Json to_json(T value) {
  return value;
}
inline files::Json to_json(const std::vector<Position>& values) { return values; }
inline files::Json to_json(const std::optional<attention::Rope>& rope) {
  if (!rope) return nullptr;
  files::Json values = {rope->scaling.index()};
  if (const auto* linear = std::get_if<attention::LinearScaling>(&rope->scaling)) {
    values.push_back(linear->factor);
  }
  if (const auto* llama3 = std::get_if<attention::Llama3Scaling>(&rope->scaling)) {
    for (double value : {llama3->factor, llama3->low_frequency_factor,
                         llama3->high_frequency_factor, llama3->original_positions}) {
      values.push_back(value);
    }
  }
  return {{"rotary_dim", rope->rotary_dim},
          {"theta", rope->theta},
          {"pairing", to_json(rope->pairing)},
          {"scaling", values}};
}

// Reads fields back.
//
// Errors   FormatError naming file and field
class PackedFields {
 public:
  explicit PackedFields(const files::JsonObject& object) : object_(object) {}

  void read(std::string_view key, Index& value) const { value = object_.integer(key); }
  void read(std::string_view key, bool& value) const {
    object_.at(key);
    value = object_.flag_or(key, false);
  }
  template <std::floating_point T>
  void read(std::string_view key, T& value) const {
    value = static_cast<T>(object_.number(key));
  }
  template <class E>
  requires std::is_enum_v<E>
  void read(std::string_view key, E& value) const {
    const Index at = object_.integer(key);
    expects<FormatError>(at >= 0 && at <= static_cast<Index>(last_of(E{})), object_.place(key),
                         " is the unknown ", at);
    value = static_cast<E>(at);
  }
  template <std::integral T>
  void read(std::string_view key, std::vector<T>& values) const {
    values.clear();
    for (const files::Json& item : array(key)) {
      values.push_back(static_cast<T>(files::JsonObject::as_integer(item, object_.place(key))));
    }
  }
  void read(std::string_view key, std::optional<attention::Rope>& rope) const {
    rope.reset();
    if (!object_.has(key)) return;
    rope.emplace();
    const files::JsonObject object(object_.at(key), object_.file(), std::string(key));
    const PackedFields fields(object);
    fields.read("rotary_dim", rope->rotary_dim);
    fields.read("theta", rope->theta);
    fields.read("pairing", rope->pairing);
    rope->scaling = fields.scaling("scaling");
  }

 private:
  const files::Json& array(std::string_view key) const {
    const files::Json& value = object_.at(key);
    expects<FormatError>(value.is_array(), object_.place(key), " is no array");
    return value;
  }

  attention::Scaling scaling(std::string_view key) const {
    std::vector<double> values;
    for (const files::Json& item : array(key)) {
      values.push_back(files::JsonObject::as_number(item, object_.place(key)));
    }
    if (values == std::vector<double>{0}) return attention::Unscaled{};
    if (values.size() == 2 && values[0] == 1) return attention::LinearScaling{values[1]};
    expects<FormatError>(values.size() == 5 && values[0] == 2, object_.place(key),
                         " is an unknown rule");
    return attention::Llama3Scaling{values[1], values[2], values[3], values[4]};
  }

  const files::JsonObject& object_;
};

inline std::string to_json(const Checkpoint& checkpoint) {
  files::Json json;
  model::for_each_field(checkpoint.config, [&](const auto& field) {
    json[std::string(field.name)] = to_json(field.value);
  });
  json["end_tokens"] = checkpoint.end_tokens;
  json["begin_tokens"] = files::Json::array();
  if (checkpoint.begin_token) json["begin_tokens"].push_back(*checkpoint.begin_token);
  return json.dump();
}

inline std::vector<Token> packed_tokens(const PackedFields& fields, std::string_view key,
                                        const model::Config& config, std::string_view file) {
  std::vector<Index> ids;
  fields.read(key, ids);
  std::vector<Token> tokens;
  for (Index id : ids) {
    expects<FormatError>(id >= 0 && id < config.vocabulary, file, ": ", key, " has ", id,
                         ", outside the vocabulary of ", config.vocabulary);
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

// A checkpoint without its weights.
//
// Errors   FormatError naming file and field
inline Checkpoint parse_packed_config(std::string_view text, const std::string& file) {
  const files::Json json = files::parse_json(text, file);
  const files::JsonObject object(json, file);
  const PackedFields fields(object);
  Checkpoint checkpoint;
  model::for_each_field(checkpoint.config, [&]<class T>(const model::Field<T>& field) {
    fields.read(field.name, const_cast<T&>(field.value));
  });
  try {
    model::check(checkpoint.config);
  } catch (const std::invalid_argument& error) {
    throw FormatError(sentence(file, ": contradicts itself: ", error.what()));
  }
  checkpoint.end_tokens = packed_tokens(fields, "end_tokens", checkpoint.config, file);
  const std::vector<Token> begin = packed_tokens(fields, "begin_tokens", checkpoint.config, file);
  if (!begin.empty()) checkpoint.begin_token = begin.front();
  return checkpoint;
}

}  // namespace decant::inline DECANT_ABI::checkpoints::detail
