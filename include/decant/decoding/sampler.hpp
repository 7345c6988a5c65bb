// decant/decoding/sampler.hpp - which token comes next: from one row of logits to one id.
//
// Biases and penalties come first (decoding/penalties.hpp), then the filters in the order that the
// options give, then the draw, which walks the candidates by ascending id. Random numbers are
// functions of (seed, sequence, position), so a token depends on its own row and position only,
// never on the other sequences of a batch; under Mirostat, on the draws before it too.
//
// Source      XTC: p-e-w 2024, github.com/oobabooga/text-generation-webui/pull/6335; Mirostat 2:
//             Basu et al. 2021, arXiv:2007.14966; the other filters: decoding/candidates.hpp
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

namespace decant::inline DECANT_ABI::decoding {

enum class Filter { temperature, top_k, top_p, min_p, typical, top_n_sigma, xtc, mirostat };

// All of them, in the order in which they are applied unless options say otherwise.
inline constexpr std::array kFilters = {Filter::temperature, Filter::top_k,   Filter::top_p,
                                        Filter::min_p,       Filter::typical, Filter::top_n_sigma,
                                        Filter::xtc,         Filter::mirostat};

// Greedy unless a temperature is given; every filter is off unless its option is set.
struct SamplerOptions {
  double temperature = 0.0;  // divides logits; 0 takes the most probable token
  Index top_k = 0;           // keeps the k most probable; 0: off
  double top_p = 1.0;        // keeps the most probable until their mass reaches p; 1: off
  double min_p = 0.0;        // keeps tokens at least min_p times as probable as the best; 0: off
  double typical = 1.0;      // keeps the most typical until their mass reaches it; 1: off
  double top_n_sigma = 0.0;  // keeps logits within n standard deviations of the best; 0: off
  // XTC (exclude top choices): with this probability, a draw drops the tokens of probability
  // xtc_threshold or more, except the least probable of them; 0: off.
  double xtc = 0.0;
  double xtc_threshold = 0.1;
  // Mirostat 2 keeps tokens whose surprise (-log2 of their probability) is within a bound. Each
  // draw moves the bound, so that the mean surprise approaches this target, in bits; 0: off.
  double mirostat = 0.0;
  double mirostat_rate = 0.1;  // the learning rate of the bound
  std::uint64_t seed = 0;
  std::vector<Filter> order = {kFilters.begin(), kFilters.end()};
  PenaltyOptions penalties = {};

  friend bool operator==(const SamplerOptions&, const SamplerOptions&) = default;
};

namespace detail {

// What a filter may depend on beside logits and options.
struct DrawState {
  std::uint64_t sequence = 0;
  Position position = 0;
  double surprise_bound = 0.0;  // of Mirostat
};

// All that a sampler knows about a filter. To add one: a value of Filter and its place in kFilters,
// an option, a rule here, and the function of Candidates that it calls.
struct FilterRule {
  std::string_view name;  // of the option too
  double (*value)(const SamplerOptions&);
  bool (*valid)(double value);
  std::string_view otherwise;  // what is wrong with an invalid value
  bool (*on)(double value);
  // Does nothing if it is off.
  void (*apply)(Candidates&, const SamplerOptions&, const DrawState&);
};

inline bool is_share(double value) { return value >= 0 && value <= 1; }
inline bool is_amount(double value) { return std::isfinite(value) && value >= 0; }
inline bool below_one(double value) { return value < 1; }
inline bool above_zero(double value) { return value > 0; }
inline constexpr std::string_view kOutsideUnit = ", outside [0, 1]";

inline constexpr std::array<FilterRule, kFilters.size()> kFilterRules = {{
    // in the order of Filter
    {"temperature", [](const SamplerOptions& of) { return of.temperature; }, is_amount, "",
     [](double value) { return value != 0 && value != 1; },
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       candidates.temper(of.temperature);
     }},
    {"top_k", [](const SamplerOptions& of) { return static_cast<double>(of.top_k); }, is_amount, "",
     above_zero,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       if (of.top_k > 0) candidates.keep_top_k(of.top_k);
     }},
    {"top_p", [](const SamplerOptions& of) { return of.top_p; }, is_share, kOutsideUnit, below_one,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       candidates.keep_top_p(of.top_p);
     }},
    {"min_p", [](const SamplerOptions& of) { return of.min_p; }, is_amount, "", above_zero,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       candidates.keep_min_p(of.min_p);
     }},
    {"typical", [](const SamplerOptions& of) { return of.typical; }, is_share, kOutsideUnit,
     below_one,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       candidates.keep_typical(of.typical);
     }},
    {"top_n_sigma", [](const SamplerOptions& of) { return of.top_n_sigma; }, is_amount, "",
     above_zero,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState&) {
       candidates.keep_top_n_sigma(of.top_n_sigma);
     }},
    {"xtc", [](const SamplerOptions& of) { return of.xtc; }, is_share, kOutsideUnit, above_zero,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState& at) {
       if (uniform(of.seed, at.sequence, at.position, 2) < of.xtc) {
         candidates.drop_top_choices(of.xtc_threshold);
       }
     }},
    {"mirostat", [](const SamplerOptions& of) { return of.mirostat; }, is_amount, "", above_zero,
     [](Candidates& candidates, const SamplerOptions& of, const DrawState& at) {
       if (of.mirostat > 0) candidates.keep_surprise_up_to(at.surprise_bound);
     }},
}};

constexpr const FilterRule& rule(Filter filter) noexcept {
  return kFilterRules[static_cast<std::size_t>(filter)];
}
inline bool is_on(const SamplerOptions& options, Filter filter) {
  return rule(filter).on(rule(filter).value(options));
}

// The given filters, followed by the others.
inline std::vector<Filter> order_of(std::vector<Filter> order) {
  for (Filter filter : kFilters) {
    if (std::ranges::count(order, filter) == 0) order.push_back(filter);
  }
  return order;
}

}  // namespace detail

constexpr std::string_view name(Filter filter) noexcept { return detail::rule(filter).name; }

// Engines differ in the order of filters and in which tokens penalties count, so that the same
// options keep other candidates under each preset.
namespace presets {

// Hugging Face transformers: temperature first; repetition counts prompt and text.
inline SamplerOptions hf() { return {}; }

// vLLM: temperature, then min-p, top-k, top-p; presence and frequency count generated tokens alone,
// as in OpenAI's interface.
inline SamplerOptions openai_vllm() {
  return {.order =
              detail::order_of({Filter::temperature, Filter::min_p, Filter::top_k, Filter::top_p})};
}

// llama.cpp: temperature last of its filters; penalties count the last 64 tokens,
// those of the prompt included.
inline SamplerOptions llama_cpp() {
  return {
      .order = detail::order_of({Filter::top_n_sigma, Filter::top_k, Filter::typical, Filter::top_p,
                                 Filter::min_p, Filter::xtc, Filter::temperature}),
      .penalties = {.last = 64, .presence_of_prompt = true}};
}

}  // namespace presets

// Refuses invalid options. A min_p above 1 is allowed, and keeps only the best.
//
// Errors   std::invalid_argument naming the option and its value, or a filter that is set and not
//          in the order, or twice in it
inline void check(const SamplerOptions& options) {
  for (Filter filter : kFilters) {
    const detail::FilterRule& rule = detail::rule(filter);
    const double value = rule.value(options);
    expects(rule.valid(value), "decoding::SamplerOptions: ", rule.name, " is ", value,
            rule.otherwise);
    const auto times = std::ranges::count(options.order, filter);
    expects(times <= 1, "decoding::SamplerOptions: ", rule.name, " is in the order twice");
    expects(times == 1 || !rule.on(value), "decoding::SamplerOptions: ", rule.name,
            " is set and not in the order");
  }
  expects(detail::is_share(options.xtc_threshold), "decoding::SamplerOptions: xtc_threshold is ",
          options.xtc_threshold, detail::kOutsideUnit);
  expects(detail::is_amount(options.mirostat_rate), "decoding::SamplerOptions: mirostat_rate is ",
          options.mirostat_rate);
}

// Draws tokens under fixed options.
//
// Shape    logits are [vocabulary]
// Errors   the constructor: as check() of options and penalties. Every call: as argmax(), and
//          std::invalid_argument on another number of logits
// Cost     greedy is one pass. If top_k comes before every other filter but temperature, one pass
//          and O(top_k) exponentials; otherwise O(vocabulary) of them
// Threads  calls share scratch memory, so each thread needs a sampler of its own
class Sampler {
 public:
  Sampler(const SamplerOptions& options, Index vocabulary)
      : options_(options),
        vocabulary_(vocabulary),
        penalties_(options.penalties, vocabulary),
        surprise_bound_(2 * options.mirostat) {
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
  std::span<const Candidate> candidates(std::span<const float> logits, std::uint64_t sequence = 0,
                                        Position position = 0) {
    check_size(logits);
    if (options_.temperature == 0) {
      candidates_.begin(logits, 1);
      return candidates_.finish();
    }
    candidates_.begin(logits, most_candidates());
    const detail::DrawState state{sequence, position, surprise_bound_};
    for (Filter filter : options_.order) detail::rule(filter).apply(candidates_, options_, state);
    return candidates_.finish();
  }

  // The token at u of the distribution that the filters leave, with the draw of XTC for position 0
  // of sequence 0. Mirostat's bound moves only when took() is called.
  Token draw(std::span<const float> logits, double u) {
    return decoding::draw(candidates(logits), u);
  }

  // The token of `sequence` at `position`, where the new token will stand.
  Token sample(std::span<const float> logits, std::uint64_t sequence, Position position) {
    if (options_.temperature == 0) {
      check_size(logits);
      return argmax(logits);
    }
    const double u = uniform(options_.seed, sequence, position);
    const Token token = decoding::draw(candidates(logits, sequence, position), u);
    took(token);
    return token;
  }

  // Moves Mirostat's bound after a token was drawn. Precondition: it is one of the candidates()
  // that were computed last.
  void took(Token token) {
    if (options_.mirostat == 0) return;
    const double surprise = -std::log2(candidates_.probability_of(token));
    surprise_bound_ -= options_.mirostat_rate * (surprise - options_.mirostat);
  }

 private:
  void check_size(std::span<const float> logits) const {
    expects(std::ssize(logits) == vocabulary_, "decoding::Sampler: ", logits.size(),
            " logits for a vocabulary of ", vocabulary_);
  }

  // A top-k that only temperature comes before is applied while candidates are taken.
  Index most_candidates() const noexcept {
    const auto first = std::ranges::find_if(options_.order, [&](Filter filter) {
      return filter != Filter::temperature && detail::is_on(options_, filter);
    });
    const bool at_once = first != options_.order.end() && *first == Filter::top_k;
    return at_once ? std::min(options_.top_k, vocabulary_) : vocabulary_;
  }

  SamplerOptions options_;
  Index vocabulary_;
  Penalties penalties_;
  double surprise_bound_;
  Candidates candidates_;
};

}  // namespace decant::inline DECANT_ABI::decoding
