// examples/support/options.hpp - options that several examples share, and formatted integers.
//
// Tested by   tests/examples/refusals.cmake
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/processors.hpp>
#include <decant/core/types.hpp>

#include "support/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace examples {

using decant::Index;
using decant::sentence;

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// Whether the text begins with a number too large for its type.
template <class Number>
bool overflows(std::string_view text) {
  Number number{};
  return std::from_chars(text.data(), text.data() + text.size(), number).ec ==
         std::errc::result_out_of_range;
}

template <class Number>
std::string written(Number number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

// An option that is a number in [least, most]; for an integral type, an integer.
template <class Number>
CommandLine::Option add_number(
    CommandLine& command, const std::string& name, Number& value, const std::string& about,
    std::type_identity_t<Number> least,
    std::type_identity_t<Number> most = std::numeric_limits<Number>::max()) {
  return command.add(name, "N", about, [&value, least, most](const std::string& text) {
    const std::optional<Number> given = parse<Number>(text);
    if (given && *given >= least && *given <= most) {
      value = *given;
      return std::string();
    }
    constexpr std::string_view kKind = std::is_integral_v<Number> ? "an integer" : "a number";
    const bool open = most == std::numeric_limits<Number>::max() && !overflows<Number>(text);
    return sentence("\"", text, "\" is not ", kKind,
                    open ? sentence(" of at least ", written(least))
                         : sentence(" from ", written(least), " to ", written(most)));
  });
}

// The integers of a list such as "1 2 3" or "1,2,3", none below `least`.
inline std::vector<Index> integers(std::string_view argument, std::string_view list, Index least) {
  constexpr std::string_view kBetween = " ,\t\n";
  std::vector<Index> result;
  for (std::size_t at = 0; (at = list.find_first_not_of(kBetween, at)) != list.npos;) {
    const std::size_t end = std::min(list.find_first_of(kBetween, at), list.size());
    const std::string_view word = list.substr(at, end - at);
    const auto number = parse<Index>(word);
    decant::expects<UsageError>(number && *number >= least, argument, ": \"", word,
                                "\" is not an integer of at least ", least);
    result.push_back(*number);
    at = end;
  }
  decant::expects<UsageError>(!result.empty(), argument, ": there is no integer in \"", list, "\"");
  return result;
}

// 327680 as 327,680.
inline std::string grouped(Index number) {
  std::string digits = std::to_string(number);
  for (auto at = std::ssize(digits) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

// 1 token, 2,500 tokens.
inline std::string counted(Index number, const std::string& noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

// The format of that name, in our spelling or in that of Hugging Face.
inline std::optional<decant::codec::Type> parse_type(std::string_view name) {
  using decant::codec::Type;
  if (name == "float32") return Type::f32;
  if (name == "bfloat16") return Type::bf16;
  if (name == "float16") return Type::f16;
  return decant::codec::parse(name);
}

// A format that a cache may have.
inline constexpr const char* kCacheTypes = "f32|bf16|f16|fp8_e4m3|fp8_e5m2|int8|int4";

inline std::optional<decant::codec::Type> parse_cache_type(std::string_view name) {
  const auto type = parse_type(name);
  return type && !decant::codec::is_block(*type) ? type : std::nullopt;
}

inline CommandLine::Option add_type(CommandLine& command, const std::string& name,
                                    decant::codec::Type& type, const std::string& about) {
  return command.add(name, kCacheTypes, about, [&type](const std::string& text) {
    const auto parsed = parse_cache_type(text);
    if (!parsed) return sentence("\"", text, "\" is not one of ", kCacheTypes);
    type = *parsed;
    return std::string();
  });
}

// The formats of keys and values.
struct Formats {
  decant::codec::Type keys = decant::codec::Type::f32;
  decant::codec::Type values = decant::codec::Type::f32;
};

inline std::string name(const Formats& formats) {
  const std::string keys(decant::codec::name(formats.keys));
  return formats.keys == formats.values ? keys
                                        : sentence(keys, ":", decant::codec::name(formats.values));
}

// One format for both, or two as int8:f16.
inline CommandLine::Option add_formats(CommandLine& command, const std::string& option,
                                       Formats& formats, const std::string& about) {
  return command.add(option, kCacheTypes, about, [&formats](const std::string& text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto keys = parse_cache_type(text.substr(0, colon));
    const auto values = colon < text.size() ? parse_cache_type(text.substr(colon + 1)) : keys;
    if (!keys || !values) {
      return sentence("\"", text, "\" is not one of ", kCacheTypes, ", nor two as int8:f16");
    }
    formats = {*keys, *values};
    return std::string();
  });
}

// As many threads as this process has processors; their number changes the time, never a bit.
inline Index default_threads() { return decant::available_processors(); }

inline CommandLine::Option add_threads(CommandLine& command, Index& threads) {
  return add_number(command, "--threads", threads,
                    "threads of a step (as many as it has processors)", 1, 1024);
}

}  // namespace examples
