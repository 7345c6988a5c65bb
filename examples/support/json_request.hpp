// examples/support/json_request.hpp - a request as a line of JSON.
//
// {"id": "a", "prompt": "ROMEO:", "max_new_tokens": 20} is a request, {"cancel": "a"} cancels it.
// An unknown field is refused, not ignored.
//
// Tested by   tests/examples/CMakeLists.txt (serve_batch)
#pragma once

#include <decant/core/error.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/request.hpp>
#include <decant/files/json.hpp>

#include "support/sampler.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace examples {

// A line: a request or a cancellation.
struct JsonRequest {
  bool cancels = false;
  std::string prompt;
  std::optional<Index> new_tokens;    // at most, if given
  decant::decoding::Request request;  // without its prompt's tokens
};

// The fields of a line, with their defaults.
struct RequestField {
  std::string_view name, about;
};
inline constexpr std::array kRequestFields = {
    RequestField{"prompt", "the text to continue"},
    RequestField{"id", "text or an integer that names it in answers (the number of the line)"},
    RequestField{"max_new_tokens", "at most so many tokens (100)"},
    RequestField{"min_new_tokens", "no end before so many tokens (0)"},
    RequestField{"max_seconds", "no longer than that (for ever)"},
    RequestField{"stop", "where the text ends: a string or an id, or a list of them"},
    RequestField{"ignore_end", "whether to go on after the model's end token (false)"},
    RequestField{"priority", "the higher one first, from -1000 to 1000 (0)"},
    RequestField{"tenant", "prefixes are shared only within a tenant (0)"},
    RequestField{"logprobs", "log-probabilities of each token and the N best (none)"},
    RequestField{"draft_ngram", "whether tokens are drafted by n-gram look-up (false)"},
    RequestField{"temperature", "0 takes the most probable token (0.8)"},
    RequestField{"top_k", "of the k most probable tokens (all)"},
    RequestField{"top_p", "of the most probable up to this mass (1)"},
    RequestField{"min_p", "of those so probable relative to the best (0)"},
    RequestField{"typical", "of the most typical up to this mass (1)"},
    RequestField{"top_n_sigma", "of logits so many deviations below the best (0: off)"},
    RequestField{"xtc", "how often all top choices but the last are dropped (0)"},
    RequestField{"xtc_threshold", "how probable a top choice is (0.1)"},
    RequestField{"mirostat", "the mean surprise aimed at, in bits (0: none)"},
    RequestField{"mirostat_rate", "how fast that is followed (0.1)"},
    RequestField{"seed", "which random numbers (0)"},
    RequestField{"sampler", "whose order of filters: hf, openai_vllm or llama_cpp (hf)"},
    RequestField{"repetition_penalty", "above 1 makes repeated tokens less probable (1)"},
    RequestField{"presence_penalty", "subtracted from the logits of repeated tokens (0)"},
    RequestField{"frequency_penalty", "subtracted for each repetition (0)"},
    RequestField{"penalty_last", "latest tokens that penalties count (all)"},
    RequestField{"cancel", "the id of a request to cancel; the only field of its line"}};

namespace detail {

inline void refuse_unknown(const decant::files::JsonObject& line) {
  for (const auto& [key, value] : line.json().items()) {
    const std::string_view name = key;
    const bool known = std::ranges::any_of(
        kRequestFields, [&](const RequestField& field) { return field.name == name; });
    decant::expects<decant::FormatError>(known, line.place(key),
                                         " is no field of a request; --help names them");
  }
}

// A name of a request: text, or an integer.
inline decant::files::Json name_at(const decant::files::JsonObject& line, std::string_view key) {
  const decant::files::Json& name = line.at(key);
  decant::expects<decant::FormatError>(name.is_string() || name.is_number_integer(),
                                       line.place(key), " is ", name.dump(),
                                       ", neither text nor an integer");
  return name;
}

// A text or an id, or a list of both.
inline void read_stops(const decant::files::JsonObject& line, decant::decoding::StopOptions& stop) {
  const auto add = [&](const decant::files::Json& one) {
    if (!one.is_number()) {
      stop.stop_strings.push_back(decant::files::JsonObject::as_text(one, line.place("stop")));
    } else {
      const Index id = decant::files::JsonObject::as_integer(one, line.place("stop"));
      decant::expects<decant::FormatError>(std::in_range<decant::Token>(id), line.place("stop"),
                                           " is ", id, ", not the id of a token");
      stop.stop_tokens.push_back(static_cast<decant::Token>(id));
    }
  };
  const decant::files::Json* found = line.find("stop");
  if (found == nullptr) return;
  if (!found->is_array()) return add(*found);
  for (const decant::files::Json& one : *found) add(one);
}

inline std::uint64_t count_at(const decant::files::JsonObject& line, std::string_view key) {
  const Index count = line.integer_or(key, 0);
  decant::expects<decant::FormatError>(count >= 0, line.place(key), " is ", count);
  return static_cast<std::uint64_t>(count);
}

inline SamplerChoice sampler_of(const decant::files::JsonObject& line) {
  SamplerChoice choice;
  decant::decoding::SamplerOptions& options = choice.options;
  decant::decoding::PenaltyOptions& penalties = options.penalties;
  const auto number = [&](std::string_view key, double& value) {
    value = line.number_or(key, value);
  };
  number("temperature", options.temperature);
  options.top_k = line.integer_or("top_k", options.top_k);
  number("top_p", options.top_p);
  number("min_p", options.min_p);
  number("typical", options.typical);
  number("top_n_sigma", options.top_n_sigma);
  number("xtc", options.xtc);
  number("xtc_threshold", options.xtc_threshold);
  number("mirostat", options.mirostat);
  number("mirostat_rate", options.mirostat_rate);
  number("repetition_penalty", penalties.repetition);
  number("presence_penalty", penalties.presence);
  number("frequency_penalty", penalties.frequency);
  penalties.last = line.integer_or("penalty_last", penalties.last);
  options.seed = count_at(line, "seed");
  choice.preset = line.text_or("sampler", choice.preset);
  const auto known = {"hf", "openai_vllm", "llama_cpp"};
  decant::expects<decant::FormatError>(
      std::ranges::count(known, choice.preset) > 0, line.place("sampler"), " is \"",
      decant::files::printable(choice.preset), "\", not hf, openai_vllm or llama_cpp");
  return choice;
}

inline decant::decoding::Request options_of(const decant::files::JsonObject& line) {
  decant::decoding::Request request;
  decant::decoding::GenerateOptions& options = request.options;
  options.max_seconds = line.number_or("max_seconds", options.max_seconds);
  options.stop.min_new_tokens = line.integer_or("min_new_tokens", 0);
  options.stop.ignore_end_tokens = line.flag_or("ignore_end", false);
  if (line.has("logprobs")) options.log_probabilities = line.integer("logprobs");
  options.sampler = sampler_of(line).resolved();
  const Index priority = line.integer_or("priority", 0);
  decant::expects<decant::FormatError>(priority >= -1000 && priority <= 1000,
                                       line.place("priority"), " is ", priority,
                                       ", outside [-1000, 1000]");
  request.priority = static_cast<int>(priority);
  request.cache_namespace.tenant = count_at(line, "tenant");
  if (line.flag_or("draft_ngram", false)) {
    request.drafter = decant::decoding::drafts_of(decant::decoding::NgramDrafter{});
  }
  return request;
}

}  // namespace detail

// `id` is set as soon as the line gives one, so that an error is reported for the right request; it
// stays null if the line gives none.
//
// Errors   decant::FormatError naming line and field
inline JsonRequest parse_request(std::string_view text, Index number, decant::files::Json& id) {
  id = nullptr;
  const std::string place = decant::sentence("line ", number);
  const decant::files::Json json = decant::files::parse_json(text, place);
  decant::expects<decant::FormatError>(json.is_object(), place, ": is ", json.type_name(),
                                       ", not an object");
  const decant::files::JsonObject line(json, place);
  if (line.has("id")) id = detail::name_at(line, "id");
  detail::refuse_unknown(line);
  JsonRequest result;
  if (line.has("cancel")) {
    decant::expects<decant::FormatError>(json.size() == 1, line.place("cancel"),
                                         " stands beside other fields");
    id = detail::name_at(line, "cancel");
    result.cancels = true;
    return result;
  }
  result.prompt = line.text("prompt");
  if (line.has("max_new_tokens")) result.new_tokens = line.integer("max_new_tokens");
  result.request = detail::options_of(line);
  detail::read_stops(line, result.request.options.stop);
  return result;
}

}  // namespace examples
