// decant/decoding/sampler.hpp - which token comes next: from one row of logits to one id.
//
// Filters run in one fixed order: top-k, top-p, min-p, with the temperature before or after all
// three. Every rule that could depend on an implementation is fixed: equal logits go by the lower
// id, the token that crosses top_p stays, sums are in double, and a draw walks the candidates by
// ascending id. The random number is a function of (seed, sequence, position), so a token depends
// on its own row and place only, never on its neighbours in a batch.
//
// Depends on  core/error.hpp, core/random.hpp, core/types.hpp
// Source      top-p: Holtzman et al. 2020, arXiv:1904.09751; min-p: Nguyen et al. 2024,
//             arXiv:2407.01082
// Tested by   tests/decoding/sampler_test.cpp, tests/decoding/filters_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// Whether the filters see the tempered distribution (Hugging Face, vLLM) or the model's own
// (llama.cpp). The same numbers keep other candidates under the two.
enum class FilterOrder { temperature_first, temperature_last };

// Greedy unless a temperature is given.
struct SamplerOptions {
  double temperature = 0.0;  // divides logits; 0 takes the most probable token
  Index top_k = 0;           // keeps the k most probable; 0 keeps all
  double top_p = 1.0;        // keeps the most probable until their mass reaches p; 1 keeps all
  double min_p = 0.0;        // keeps what is at least min_p times as probable as the best; 0: all
  std::uint64_t seed = 0;
  FilterOrder order = FilterOrder::temperature_first;
};

// Refuses options that mean nothing. A min_p above 1 is allowed, and keeps only the best.
//
// Errors   std::invalid_argument naming the option and its value
inline void check(const SamplerOptions& options) {
  expects(std::isfinite(options.temperature) && options.temperature >= 0,
          "decoding::SamplerOptions: temperature is ", options.temperature);
  expects(options.top_k >= 0, "decoding::SamplerOptions: top_k is ", options.top_k);
  expects(options.top_p >= 0 && options.top_p <= 1, "decoding::SamplerOptions: top_p is ",
          options.top_p, ", outside [0, 1]");
  expects(std::isfinite(options.min_p) && options.min_p >= 0, "decoding::SamplerOptions: min_p is ",
          options.min_p);
}

// The token of the highest logit, the lower id of equal ones. -infinity bans a token.
//
// Errors   std::invalid_argument where a logit is NaN or +infinity, or where none is above
//          -infinity, so that no candidate is left
inline Token argmax(std::span<const float> logits) {
  float highest = -std::numeric_limits<float>::infinity();
  std::ptrdiff_t best = -1;
  for (std::ptrdiff_t token = 0; token < std::ssize(logits); ++token) {
    const float logit = logits[static_cast<std::size_t>(token)];
    expects(logit <= std::numeric_limits<float>::max(), "decoding: the logit of token ", token,
            " is ", logit);
    if (logit > highest) {
      highest = logit;
      best = token;
    }
  }
  expects(best >= 0, "decoding: no candidate is left, all ", logits.size(), " tokens are banned");
  return static_cast<Token>(best);
}

struct Candidate {
  Token token = 0;
  double probability = 0.0;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// Inverse of the cumulative distribution at u, in the order given; probabilities need not sum
// to 1. A candidate of probability 0 is never drawn, whatever u is.
//
// Units    u in [0, 1)
// Errors   std::invalid_argument where u is outside or no probability is positive
inline Token draw(std::span<const Candidate> candidates, double u) {
  expects(u >= 0 && u < 1, "decoding::draw: u is ", u, ", outside [0, 1)");
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.probability;
  expects(total > 0, "decoding::draw: no candidate of positive probability");
  double passed = 0;
  Token last = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.probability <= 0) continue;
    passed += candidate.probability;
    last = candidate.token;
    if (u * total < passed) break;
  }
  return last;  // also where u * total was rounded up to the total
}

// Draws tokens under fixed options.
//
// Shape    logits are [vocabulary]
// Errors   the constructor: as check(). Every call: as argmax(), and std::invalid_argument on
//          another number of logits
// Cost     greedy is one pass. With top_k, one pass and O(top_k) exponentials. Otherwise
//          O(vocabulary) exponentials, and top-p sorts about as much as it keeps. Only the
//          constructor allocates
// Threads  calls share scratch memory: one sampler for each thread
class Sampler {
 public:
  Sampler(const SamplerOptions& options, Index vocabulary)
      : options_(options), vocabulary_(vocabulary) {
    check(options);
    expects(vocabulary > 0, "decoding::Sampler: a vocabulary of ", vocabulary);
    const bool greedy = options.temperature == 0;
    candidates_.reserve(greedy ? 1 : static_cast<std::size_t>(most_candidates()));
  }

  const SamplerOptions& options() const noexcept { return options_; }
  Index vocabulary() const noexcept { return vocabulary_; }

  // What the filters leave, by ascending id; probabilities are positive and sum to 1. Valid
  // until the next call.
  std::span<const Candidate> candidates(std::span<const float> logits) {
    const Token best = most_probable(logits);
    candidates_.clear();
    if (options_.temperature == 0) {
      candidates_.push_back({.token = best, .probability = 1.0});
      return candidates_;
    }
    const bool last = options_.order == FilterOrder::temperature_last;
    keep_top_k(logits);
    sort_by_token();
    weigh(logits, best, last ? 1.0 : options_.temperature);
    keep_top_p(logits);
    keep_min_p(best);
    sort_by_token();
    if (last) weigh(logits, best, options_.temperature);
    normalise();
    return candidates_;
  }

  // The token at u of the surviving distribution.
  Token draw(std::span<const float> logits, double u) {
    return decoding::draw(candidates(logits), u);
  }

  // The token of `sequence` at `position`, where the new token will stand.
  Token sample(std::span<const float> logits, std::uint64_t sequence, Position position) {
    if (options_.temperature == 0) return most_probable(logits);
    return draw(logits, uniform(options_.seed, sequence, position));
  }

 private:
  static constexpr std::size_t kFirstSorted = 256;

  // The one order of candidates: the higher logit, then the lower id. Probabilities do not
  // serve, since close logits may round to one.
  struct Before {
    std::span<const float> logits;

    bool operator()(const Candidate& a, const Candidate& b) const noexcept {
      const float first = logits[static_cast<std::size_t>(a.token)];
      const float second = logits[static_cast<std::size_t>(b.token)];
      return first != second ? first > second : a.token < b.token;
    }
  };

  Index most_candidates() const noexcept {
    return options_.top_k == 0 ? vocabulary_ : std::min(options_.top_k, vocabulary_);
  }

  Token most_probable(std::span<const float> logits) const {
    expects(std::ssize(logits) == vocabulary_, "decoding::Sampler: ", logits.size(),
            " logits for a vocabulary of ", vocabulary_);
    return argmax(logits);
  }

  // The first top_k of all tokens. The heap has the last of them in front; ids ascend, so an
  // equal logit that comes later never replaces one.
  void keep_top_k(std::span<const float> logits) {
    const auto most = static_cast<std::size_t>(most_candidates());
    const Before before{logits};
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const Candidate next{.token = static_cast<Token>(token)};
      if (candidates_.size() < most) {
        candidates_.push_back(next);
        const bool more_to_come = most < logits.size();
        if (candidates_.size() == most && more_to_come) {
          std::ranges::make_heap(candidates_, before);
        }
      } else if (before(next, candidates_.front())) {
        std::ranges::pop_heap(candidates_, before);
        candidates_.back() = next;
        std::ranges::push_heap(candidates_, before);
      }
    }
  }

  // Probabilities relative to the best token, whose own is exactly 1. Banned tokens and what
  // vanishes even in double are dropped.
  void weigh(std::span<const float> logits, Token best, double temperature) {
    const double highest = logits[static_cast<std::size_t>(best)];
    for (Candidate& candidate : candidates_) {
      const double logit = logits[static_cast<std::size_t>(candidate.token)];
      candidate.probability = std::exp((logit - highest) / temperature);
    }
    std::erase_if(candidates_, [](const Candidate& c) { return c.probability == 0; });
  }

  // Keeps a candidate while the mass before it is below top_p, and always the first.
  void keep_top_p(std::span<const float> logits) {
    if (options_.top_p >= 1) return;
    const double goal = options_.top_p * total();
    std::size_t kept = 0;
    std::size_t sorted = 0;
    double mass = 0;
    do {
      if (kept == sorted) sorted = sort_more(sorted, Before{logits});
      mass += candidates_[kept++].probability;
    } while (kept < candidates_.size() && mass < goal);
    candidates_.resize(kept);
  }

  // Puts more leading candidates into their order: a peaked distribution needs few.
  std::size_t sort_more(std::size_t sorted, Before before) {
    const std::size_t goal = std::min(candidates_.size(), std::max(8 * sorted, kFirstSorted));
    const auto at = [this](std::size_t i) {
      return candidates_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    std::nth_element(at(sorted), at(goal), candidates_.end(), before);
    std::sort(at(sorted), at(goal), before);
    return goal;
  }

  void keep_min_p(Token best) {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return candidate.probability < options_.min_p && candidate.token != best;
    });
  }

  void sort_by_token() {
    if (std::ranges::is_sorted(candidates_, {}, &Candidate::token)) return;
    std::ranges::sort(candidates_, {}, &Candidate::token);
  }

  double total() const noexcept {
    double sum = 0;
    for (const Candidate& candidate : candidates_) sum += candidate.probability;
    return sum;
  }

  void normalise() noexcept {
    const double sum = total();
    for (Candidate& candidate : candidates_) candidate.probability /= sum;
  }

  SamplerOptions options_;
  Index vocabulary_;
  std::vector<Candidate> candidates_;
};

}  // namespace decant::inline v0::decoding
