// examples/support/sampler.hpp - sampling, as options.
//
// Tested by   tests/examples/refusals.cmake, tests/examples/agreements.cmake
#pragma once

#include <decant/decoding/sampler.hpp>

#include "support/command_line.hpp"
#include "support/options.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace examples {

struct SamplerChoice {
  decant::decoding::SamplerOptions options = {.temperature = 0.8};
  std::string preset = "hf";

  // The options, with the order of filters and the tokens that penalties count as in the given
  // engine.
  decant::decoding::SamplerOptions resolved() const {
    namespace presets = decant::decoding::presets;
    const auto engine = preset == "llama_cpp"     ? presets::llama_cpp()
                        : preset == "openai_vllm" ? presets::openai_vllm()
                                                  : presets::hf();
    decant::decoding::SamplerOptions result = options;
    result.order = engine.order;
    result.penalties.repetition_of_prompt = engine.penalties.repetition_of_prompt;
    result.penalties.presence_of_prompt = engine.penalties.presence_of_prompt;
    if (result.penalties.last == 0) result.penalties.last = engine.penalties.last;
    return result;
  }
};

inline void add_filters(CommandLine& command, SamplerChoice& choice) {
  decant::decoding::SamplerOptions& options = choice.options;
  const auto number = [&command]<class Number>(const std::string& name, Number& value,
                                               const std::string& about,
                                               Number most = std::numeric_limits<Number>::max()) {
    add_number(command, name, value, about, 0, most);
  };
  number("--temperature", options.temperature, "0 takes the most probable token (0.8)");
  number("--top-k", options.top_k, "of the k most probable tokens; 0: of all (0)");
  number("--top-p", options.top_p, "of the most probable up to this mass (1)", 1.0);
  number("--min-p", options.min_p, "of those so probable relative to the best (0)");
  number("--typical", options.typical, "of the most typical up to this mass (1)", 1.0);
  number("--top-n-sigma", options.top_n_sigma, "of logits so many deviations below the best (0)");
  number("--xtc", options.xtc, "how often all top choices but the last are dropped (0)", 1.0);
  number("--xtc-threshold", options.xtc_threshold, "how probable a top choice is (0.1)", 1.0);
  number("--mirostat", options.mirostat, "the mean surprise aimed at, in bits; 0: none (0)");
  number("--mirostat-rate", options.mirostat_rate, "how fast that is followed (0.1)");
  number("--seed", options.seed, "which random numbers (0)");
  command.add("--sampler", "hf|openai_vllm|llama_cpp",
              "whose order of filters, and what penalties count (hf)",
              [&choice](const std::string& text) {
                choice.preset = text;
                const bool known = text == "hf" || text == "openai_vllm" || text == "llama_cpp";
                return known ? std::string()
                             : sentence("\"", text, "\" is not hf, openai_vllm or llama_cpp");
              });
}

inline void add_penalties(CommandLine& command, SamplerChoice& choice) {
  decant::decoding::PenaltyOptions& penalties = choice.options.penalties;
  constexpr double kMost = std::numeric_limits<double>::max();
  add_number(command, "--repetition-penalty", penalties.repetition,
             "divides the logits of repeated tokens (1)", std::numeric_limits<double>::min(),
             kMost);
  add_number(command, "--presence-penalty", penalties.presence,
             "subtracted from the logits of repeated tokens (0)", -kMost, kMost);
  add_number(command, "--frequency-penalty", penalties.frequency,
             "subtracted for each repetition (0)", -kMost, kMost);
  add_number(command, "--penalty-last", penalties.last, "tokens that count; 0: as --sampler says",
             0);
  add_number(command, "--dry-multiplier", penalties.dry.multiplier,
             "what repeating a run of tokens costs (0)", 0);
  add_number(command, "--dry-base", penalties.dry.base, "times so much for each token of it (1.75)",
             1);
  add_number(command, "--dry-allowed-length", penalties.dry.allowed_length,
             "tokens of a run that cost nothing (2)", 1);
  command
      .add("--logit-bias", "ID:NUMBER", "added to the logit of a token, as in 13:-5",
           [&penalties](const std::string& text) {
             const std::size_t colon = std::min(text.find(':'), text.size());
             const auto token = parse<decant::Token>(text.substr(0, colon));
             const auto bias = parse<float>(text.substr(std::min(colon + 1, text.size())));
             if (!token || !bias) return sentence("\"", text, "\" is not ID:NUMBER");
             penalties.bias.emplace_back(*token, *bias);
             return std::string();
           })
      .repeatable();
}

}  // namespace examples
