// decant/files/json.hpp - JSON from untrusted files.
//
// Parsing is nlohmann/json's; what is added is what a reader of foreign files needs: a key that
// appears twice is refused (the last one would win silently), nesting is bounded, and a field of
// the wrong type is answered by a sentence that names the file and the field. No exception but
// FormatError leaves this header.
//
// Source      RFC 8259
// Tested by   tests/files/json_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/utf8.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::files {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;

namespace detail {

// Watches a parse: throws on a repeated key and on nesting beyond kMaxJsonDepth.
class JsonGuard {
 public:
  explicit JsonGuard(std::string_view file) : file_(file) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    expects<FormatError>(depth < kMaxJsonDepth, file_, ": JSON nested deeper than ", kMaxJsonDepth);
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) refuse(key);
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& key) const {
    throw FormatError(sentence(file_, ": the JSON key \"", printable(key), "\" appears twice"));
  }

  std::string_view file_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace detail

// Python writes NaN, Infinity and -Infinity, which are no JSON. They become strings, which a reader
// of a number refuses, and which do no harm elsewhere.
inline std::string quote_non_finite(std::string_view text) {
  std::string result;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = quoted && text[at] == '\\' ? 2 : 1;
    if (text[at] == '"') quoted = !quoted;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (!quoted && text.substr(at).starts_with(word)) length = word.size();
    }
    const std::string_view part = text.substr(at, length);
    result += length > 2 ? '"' + std::string(part) + '"' : std::string(part);
    at += length;
  }
  return result;
}

// The value that `text` writes down; `file` is how sentences name the source.
//
// Errors   FormatError on anything that is not one JSON value, on a repeated key, on nesting
inline Json parse_json(std::string_view text, std::string_view file) {
  // The parser takes a NUL for the end of its text.
  const std::size_t nul = text.find('\0');
  expects<FormatError>(nul == text.npos, file, ": is not valid JSON: a NUL at byte ", nul);
  detail::JsonGuard guard(file);
  try {
    return Json::parse(text, [&guard](int depth, Json::parse_event_t event, Json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const Json::exception& error) {
    throw FormatError(sentence(file, ": is not valid JSON: ", printable(error.what())));
  }
}

// A view of one JSON object that knows where it stands; it must not outlive its Json. To find()
// and the typed getters an absent field and a null one are the same; mentions() tells them apart.
//
// Errors   FormatError naming file and field: required but absent, or of another type
class JsonObject {
 public:
  JsonObject(const Json& value, std::string file, std::string path = {})
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {
    expects<FormatError>(value.is_object(), file_, ": ",
                         path_.empty() ? "the file" : printable(path_), " is ", value.type_name(),
                         ", not an object");
  }

  const std::string& file() const noexcept { return file_; }
  const Json& json() const noexcept { return *value_; }
  // How a sentence names a field: "config.json: rope_scaling.factor".
  std::string place(std::string_view key) const {
    return sentence(file_, ": ", printable(path_), path_.empty() ? "" : ".", printable(key));
  }

  const Json* find(std::string_view key) const {
    const auto found = value_->find(key);
    return found == value_->end() || found->is_null() ? nullptr : &*found;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool mentions(std::string_view key) const { return value_->find(key) != value_->end(); }
  const Json& at(std::string_view key) const {
    const Json* found = find(key);
    expects<FormatError>(found != nullptr, place(key), " is absent");
    return *found;
  }

  Index integer(std::string_view key) const { return as_integer(at(key), place(key)); }
  Index integer_or(std::string_view key, Index otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? otherwise : as_integer(*found, place(key));
  }
  double number(std::string_view key) const { return as_number(at(key), place(key)); }
  double number_or(std::string_view key, double otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? otherwise : as_number(*found, place(key));
  }
  bool flag_or(std::string_view key, bool otherwise) const {
    const Json* found = find(key);
    if (found == nullptr) return otherwise;
    expects<FormatError>(found->is_boolean(), place(key), " is ", found->type_name(),
                         ", not true or false");
    return found->get<bool>();
  }
  std::string text(std::string_view key) const { return as_text(at(key), place(key)); }
  std::string text_or(std::string_view key, std::string_view otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? std::string(otherwise) : as_text(*found, place(key));
  }
  std::optional<JsonObject> object(std::string_view key) const {
    const Json* found = find(key);
    if (found == nullptr) return std::nullopt;
    return JsonObject(*found, file_, sentence(path_, path_.empty() ? "" : ".", key));
  }

  // The objects of an array, each with its place; none where the field is absent.
  std::vector<JsonObject> objects(std::string_view key) const {
    std::vector<JsonObject> members;
    const Json* found = find(key);
    if (found == nullptr) return members;
    expects<FormatError>(found->is_array(), place(key), " is ", found->type_name(),
                         ", not an array");
    for (const Json& member : *found) {
      const std::string path =
          sentence(path_, path_.empty() ? "" : ".", key, "[", members.size(), "]");
      members.emplace_back(member, file_, path);
    }
    return members;
  }

  // The conversions behind the getters, for values that lie in arrays.
  static Index as_integer(const Json& value, std::string_view place) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<Index>::max()));
    expects<FormatError>(fits, place, " is ", shown(value), ", not an integer of 63 bits");
    return value.get<Index>();
  }
  static double as_number(const Json& value, std::string_view place) {
    expects<FormatError>(value.is_number() && std::isfinite(value.get<double>()), place, " is ",
                         shown(value), ", not a finite number");
    return value.get<double>();
  }
  static std::string as_text(const Json& value, std::string_view place) {
    expects<FormatError>(value.is_string(), place, " is ", shown(value), ", not a string");
    return value.get<std::string>();
  }

 private:
  // A value as a sentence shows it: a number in full, everything else by its type.
  static std::string shown(const Json& value) {
    return value.is_number() ? value.dump() : std::string(value.type_name());
  }

  const Json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace decant::inline DECANT_ABI::files
