// decant/decoding/sampler.hpp - which token comes next: from one row of logits to one id.
//
// What the past does to the row comes first (decoding/penalties.hpp), then filters in the order
// that the options give, then the draw, which walks the candidates by ascending id. The random
// number is a function of (seed, sequence, position), so a token depends on its own row and place
// only, never on its neighbours in a batch.
//
// Tested by   tests/decoding/{sampler,filters,presets}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/penalties.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace decant::inline v0::decoding {

enum class Filter { temperature, top_k, top_p, min_p, typical, top_n_sigma };

inline constexpr std::array kFilters = {Filter::temperature, Filter::top_k,   Filter::top_p,
                                        Filter::min_p,       Filter::typical, Filter::top_n_sigma};

constexpr std::string_view name(Filter filter) noexcept {
  constexpr std::array<std::string_view, kFilters.size()> kNames = {
      "temperature", "top_k", "top_p", "min_p", "typical", "top_n_sigma"};
  return kNames[static_cast<std::size_t>(filter)];
}

// Greedy unless a temperature is given; every filter is off unless its number is.
struct SamplerOptions {
  double temperature = 0.0;  // divides logits; 0 takes the most probable token
  Index top_k = 0;           // keeps the k most probable; 0: off
  double top_p = 1.0;        // keeps the most probable until their mass reaches p; 1: off
  double min_p = 0.0;        // keeps what is at least min_p times as probable as the best; 0: off
  double typical = 1.0;      // keeps the most typical until their mass reaches it; 1: off
  double top_n_sigma = 0.0;  // keeps logits within n standard deviations of the best; 0: off
  std::uint64_t seed = 0;
  std::vector<Filter> order = {kFilters.begin(), kFilters.end()};
  PenaltyOptions penalties = {};

  friend bool operator==(const SamplerOptions&, const SamplerOptions&) = default;
};

// Where engines differ: in the order of filters, and in which tokens penalties count. The same
// numbers keep other candidates under each.
namespace presets {

// Hugging Face transformers: temperature first; repetition counts prompt and text.
inline SamplerOptions hf() { return {}; }

// vLLM, with presence and frequency as OpenAI has them: of the text alone.
inline SamplerOptions openai_vllm() {
  return {.order = {Filter::temperature, Filter::min_p, Filter::top_k, Filter::top_p,
                    Filter::typical, Filter::top_n_sigma}};
}

// llama.cpp: temperature last; penalties count the last 64 tokens, whoever gave them.
inline SamplerOptions llama_cpp() {
  return {.order = {Filter::top_n_sigma, Filter::top_k, Filter::typical, Filter::top_p,
                    Filter::min_p, Filter::temperature},
          .penalties = {.last = 64, .presence_of_prompt = true}};
}

}  // namespace presets

namespace detail {

// Whether the options ask for a filter.
inline bool asks_for(const SamplerOptions& options, Filter filter) noexcept {
  switch (filter) {
    case Filter::temperature:
      return options.temperature != 0 && options.temperature != 1;
    case Filter::top_k:
      return options.top_k != 0;
    case Filter::top_p:
      return options.top_p < 1;
    case Filter::min_p:
      return options.min_p > 0;
    case Filter::typical:
      return options.typical < 1;
    case Filter::top_n_sigma:
      return options.top_n_sigma > 0;
  }
  return false;
}

}  // namespace detail

// Refuses options that mean nothing. A min_p above 1 is allowed, and keeps only the best.
//
// Errors   std::invalid_argument naming the option and its value, or a filter that is asked for and
//          not in the order, or twice in it
inline void check(const SamplerOptions& options) {
  const auto share = [](double number, const char* name) {
    expects(number >= 0 && number <= 1, "decoding::SamplerOptions: ", name, " is ", number,
            ", outside [0, 1]");
  };
  const auto positive = [](double number, const char* name) {
    expects(std::isfinite(number) && number >= 0, "decoding::SamplerOptions: ", name, " is ",
            number);
  };
  positive(options.temperature, "temperature");
  expects(options.top_k >= 0, "decoding::SamplerOptions: top_k is ", options.top_k);
  share(options.top_p, "top_p");
  positive(options.min_p, "min_p");
  share(options.typical, "typical");
  positive(options.top_n_sigma, "top_n_sigma");
  for (Filter filter : kFilters) {
    const auto times = std::ranges::count(options.order, filter);
    expects(times <= 1, "decoding::SamplerOptions: ", name(filter), " is in the order twice");
    expects(times == 1 || !detail::asks_for(options, filter),
            "decoding::SamplerOptions: ", name(filter), " is asked for and not in the order");
  }
}

// Draws tokens under fixed options.
//
// Shape    logits are [vocabulary]
// Errors   the constructor: as check() of options and penalties. Every call: as argmax(), and
//          std::invalid_argument on another number of logits
// Cost     greedy is one pass. With top_k before all that looks at masses, one pass and O(top_k)
//          exponentials; otherwise O(vocabulary) of them
// Threads  calls share scratch memory: one sampler for each thread
class Sampler {
 public:
  Sampler(const SamplerOptions& options, Index vocabulary)
      : options_(options), vocabulary_(vocabulary), penalties_(options.penalties, vocabulary) {
    check(options);
    expects(vocabulary > 0, "decoding::Sampler: a vocabulary of ", vocabulary);
    candidates_.reserve(options.temperature == 0 ? 1 : most_candidates());
  }

  const SamplerOptions& options() const noexcept { return options_; }
  Index vocabulary() const noexcept { return vocabulary_; }

  // Biases and penalties, in place, for the token that follows a history.
  //
  // Errors   as Penalties::apply()
  void penalise(std::span<float> logits, const History& history) {
    penalties_.apply(logits, history);
  }

  // What the filters leave, by ascending id; probabilities are positive and sum to 1. Valid until
  // the next call.
  std::span<const Candidate> candidates(std::span<const float> logits) {
    check_size(logits);
    if (options_.temperature == 0) {
      candidates_.begin(logits, 1);
      return candidates_.finish();
    }
    candidates_.begin(logits, most_candidates());
    for (Filter filter : options_.order) apply(filter);
    return candidates_.finish();
  }

  // The token at u of the surviving distribution.
  Token draw(std::span<const float> logits, double u) {
    return decoding::draw(candidates(logits), u);
  }

  // The token of `sequence` at `position`, where the new token will stand.
  Token sample(std::span<const float> logits, std::uint64_t sequence, Position position) {
    if (options_.temperature == 0) {
      check_size(logits);
      return argmax(logits);
    }
    return draw(logits, uniform(options_.seed, sequence, position));
  }

 private:
  void check_size(std::span<const float> logits) const {
    expects(std::ssize(logits) == vocabulary_, "decoding::Sampler: ", logits.size(),
            " logits for a vocabulary of ", vocabulary_);
  }

  // A top-k with nothing but the temperature before it is taken care of at once.
  Index most_candidates() const noexcept {
    const auto first = std::ranges::find_if(options_.order, [&](Filter filter) {
      return filter != Filter::temperature && detail::asks_for(options_, filter);
    });
    const bool at_once = first != options_.order.end() && *first == Filter::top_k;
    return at_once ? std::min(options_.top_k, vocabulary_) : vocabulary_;
  }

  void apply(Filter filter) {
    switch (filter) {
      case Filter::temperature:
        return candidates_.temper(options_.temperature);
      case Filter::top_k:
        return candidates_.keep_top_k(options_.top_k == 0 ? vocabulary_ : options_.top_k);
      case Filter::top_p:
        return candidates_.keep_top_p(options_.top_p);
      case Filter::min_p:
        return candidates_.keep_min_p(options_.min_p);
      case Filter::typical:
        return candidates_.keep_typical(options_.typical);
      case Filter::top_n_sigma:
        return candidates_.keep_top_n_sigma(options_.top_n_sigma);
    }
  }

  SamplerOptions options_;
  Index vocabulary_;
  Penalties penalties_;
  Candidates candidates_;
};

}  // namespace decant::inline v0::decoding
