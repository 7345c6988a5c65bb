// decant/decoding/candidates.hpp - the tokens that may come next, and the filters that thin them
// out.
//
// Every rule that could depend on an implementation is fixed: of equal logits the lower id is
// first, the token that crosses a mass is kept, at least one token is kept, sums are in double.
//
// Source      top-p: Holtzman et al. 2020, arXiv:1904.09751; typical: Meister et al. 2023,
//             arXiv:2202.00666; min-p: Nguyen et al. 2024, arXiv:2407.01082; top-n-sigma: Tang et
//             al. 2024, arXiv:2411.07641
// Tested by   tests/decoding/{filters,sampler}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/logits.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

struct Candidate {
  Token token = 0;
  double probability = 0.0;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// Inverse of the cumulative distribution at u, in the order given; probabilities need not sum
// to 1. A candidate of probability 0 is never drawn, whatever u is.
//
// Units    u in [0, 1)
// Errors   std::invalid_argument if u is outside [0, 1) or no probability is positive
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

// The candidates of one row at a time. begin() takes them, filters drop some in the order in which
// they are called, finish() returns those left. A filter looks at the distribution over what the
// filters before it have left.
//
// Errors   std::invalid_argument on parameters that leave nothing
// Cost     begin() is one pass; top-p and typical sort about as much as they keep; nothing
//          allocates beyond the most that was taken at once
// Threads  one owner
class Candidates {
 public:
  void reserve(Index most) { candidates_.reserve(static_cast<std::size_t>(most)); }

  // Takes the `most` best tokens of a row, or all; the row must stay as it is until finish().
  //
  // Errors   as argmax()
  void begin(std::span<const float> logits, Index most) {
    logits_ = logits;
    argmax(logits);  // refuses a row without candidates
    expects(most >= 1, "decoding::Candidates::begin: most is ", most);
    temperature_ = 1.0;
    weighed_ = false;
    candidates_.clear();
    take(static_cast<std::size_t>(most));
  }

  // Divides the logits for the filters that follow.
  void temper(double temperature) {
    expects(temperature > 0, "decoding::Candidates::temper: temperature is ", temperature);
    temperature_ = temperature;
    weighed_ = false;
  }

  // Keeps the k best.
  void keep_top_k(Index k) {
    expects(k >= 1, "decoding::Candidates::keep_top_k: k is ", k);
    if (k >= std::ssize(candidates_)) return;
    const auto end = candidates_.begin() + k;
    std::nth_element(candidates_.begin(), end, candidates_.end(), Before{logits_});
    candidates_.erase(end, candidates_.end());
    sort_by_token();
  }

  // Keeps a candidate while the mass before it, from the best on, is below p.
  void keep_top_p(double p) {
    if (p >= 1) return;
    weigh();
    keep_mass(p, Before{logits_});
  }

  // Keeps candidates at least p times as probable as the best.
  void keep_min_p(double p) {
    if (p <= 0) return;
    weigh();
    const Candidate first = best();
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return candidate.probability < p * first.probability && candidate.token != first.token;
    });
  }

  // Keeps those whose information is nearest to the entropy until their mass reaches p.
  void keep_typical(double p) {
    if (p >= 1) return;
    weigh();
    const double sum = total();
    double entropy = 0;
    for (const Candidate& candidate : candidates_) {
      const double share = candidate.probability / sum;
      if (share > 0) entropy -= share * std::log(share);
    }
    const double offset = std::log(sum) - entropy;
    const auto distance = [&](const Candidate& candidate) {
      return std::abs(offset - exponent(candidate.token));
    };
    keep_mass(p, [&](const Candidate& a, const Candidate& b) {
      const double first = distance(a);
      const double second = distance(b);
      return first != second ? first < second : Before{logits_}(a, b);
    });
  }

  // Keeps logits at most n standard deviations below the highest.
  void keep_top_n_sigma(double n) {
    if (n <= 0) return;
    double mean = 0;
    for (const Candidate& candidate : candidates_) mean += logit(candidate.token);
    mean /= static_cast<double>(candidates_.size());
    double variance = 0;
    for (const Candidate& candidate : candidates_) {
      variance += (logit(candidate.token) - mean) * (logit(candidate.token) - mean);
    }
    variance /= static_cast<double>(candidates_.size());
    const double least = logit(best().token) - n * std::sqrt(variance);
    std::erase_if(candidates_,
                  [&](const Candidate& candidate) { return logit(candidate.token) < least; });
  }

  // Of those whose probability is at least the threshold, drops all but the least probable.
  void drop_top_choices(double threshold) {
    weigh();
    const double least = threshold * total();
    const auto is_top = [&](const Candidate& of) { return of.probability >= least; };
    const Candidate* last = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (is_top(candidate) && (!last || Before{logits_}(*last, candidate))) last = &candidate;
    }
    if (last == nullptr) return;
    const Token kept = last->token;
    std::erase_if(candidates_, [&](const Candidate& of) { return is_top(of) && of.token != kept; });
  }

  // Keeps those whose surprise, -log2 of their probability, is at most `bits`, and always the best.
  void keep_surprise_up_to(double bits) {
    weigh();
    const double least = std::exp2(-bits) * total();
    const Token first = best().token;
    std::erase_if(candidates_,
                  [&](const Candidate& of) { return of.probability < least && of.token != first; });
  }

  // What is left, by ascending id; probabilities are positive and sum to 1.
  std::span<const Candidate> finish() {
    weigh();
    std::erase_if(candidates_, [](const Candidate& c) { return c.probability == 0; });
    sort_by_token();
    const double sum = total();
    for (Candidate& candidate : candidates_) candidate.probability /= sum;
    return candidates_;
  }

  // Of a token that is left, after finish(); 0 for others.
  double probability_of(Token token) const noexcept {
    const auto at = std::ranges::lower_bound(candidates_, token, {}, &Candidate::token);
    return at != candidates_.end() && at->token == token ? at->probability : 0.0;
  }

 private:
  static constexpr std::size_t kFirstSorted = 256;

  // The one order of candidates: the higher logit, then the lower id. Probabilities would not do,
  // since those of close logits may round to the same value.
  struct Before {
    std::span<const float> logits;

    bool operator()(const Candidate& a, const Candidate& b) const noexcept {
      const float first = logits[static_cast<std::size_t>(a.token)];
      const float second = logits[static_cast<std::size_t>(b.token)];
      return first != second ? first > second : a.token < b.token;
    }
  };

  Candidate best() const { return *std::ranges::min_element(candidates_, Before{logits_}); }
  double logit(Token token) const noexcept { return logits_[static_cast<std::size_t>(token)]; }
  double exponent(Token token) const noexcept { return (logit(token) - highest_) / temperature_; }

  // Takes the first `most` of all tokens that are not banned.
  void take(std::size_t most) {
    for (std::size_t token = 0; token < logits_.size(); ++token) {
      if (logits_[token] == -std::numeric_limits<float>::infinity()) continue;
      const Candidate next{.token = static_cast<Token>(token)};
      if (most < logits_.size()) {
        detail::offer(candidates_, most, next, Before{logits_});
      } else {
        candidates_.push_back(next);
      }
    }
    sort_by_token();
  }

  // Gives sums one order.
  void sort_by_token() {
    if (std::ranges::is_sorted(candidates_, {}, &Candidate::token)) return;
    std::ranges::sort(candidates_, {}, &Candidate::token);
  }

  // Probabilities relative to the best that is left, whose own is exactly 1.
  void weigh() {
    if (weighed_) return;
    highest_ = logit(best().token);
    for (Candidate& candidate : candidates_) {
      candidate.probability = std::exp(exponent(candidate.token));
    }
    weighed_ = true;
  }

  // Keeps a candidate while the mass of those before it is below a share p, and always the first.
  template <class Order>
  void keep_mass(double p, const Order& order) {
    const double goal = p * total();
    std::size_t kept = 0;
    std::size_t sorted = 0;
    double mass = 0;
    do {
      if (kept == sorted) sorted = sort_more(sorted, order);
      mass += candidates_[kept++].probability;
    } while (kept < candidates_.size() && mass < goal);
    candidates_.resize(kept);
  }

  // Sorts more of the leading candidates: a peaked distribution needs few.
  template <class Order>
  std::size_t sort_more(std::size_t sorted, const Order& order) {
    const std::size_t goal = std::min(candidates_.size(), std::max(8 * sorted, kFirstSorted));
    const auto at = [this](std::size_t i) {
      return candidates_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    std::nth_element(at(sorted), at(goal), candidates_.end(), order);
    std::sort(at(sorted), at(goal), order);
    return goal;
  }

  double total() const noexcept {
    double sum = 0;
    for (const Candidate& candidate : candidates_) sum += candidate.probability;
    return sum;
  }

  std::span<const float> logits_;
  double highest_ = 0.0;
  double temperature_ = 1.0;
  bool weighed_ = false;
  std::vector<Candidate> candidates_;
};

}  // namespace decant::inline DECANT_ABI::decoding
