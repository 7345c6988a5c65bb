// decant/decoding/detail/penalties.hpp - defines decoding/penalties.hpp: biases, penalties and DRY
// on a row of logits.
//
// Tested by   tests/decoding/penalties_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/decoding/penalties.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace decant::inline DECANT_ABI::decoding {

DECANT_INLINE void check(const PenaltyOptions& options, Index vocabulary) {
  const auto finite = [](double number, const char* name) {
    expects(std::isfinite(number), "decoding::PenaltyOptions: ", name, " is ", number);
  };
  expects(std::isfinite(options.repetition) && options.repetition > 0,
          "decoding::PenaltyOptions: repetition is ", options.repetition);
  finite(options.presence, "presence");
  finite(options.frequency, "frequency");
  expects(options.last >= 0, "decoding::PenaltyOptions: last is ", options.last);
  finite(options.dry.multiplier, "dry.multiplier");
  expects(options.dry.multiplier >= 0, "decoding::PenaltyOptions: dry.multiplier is ",
          options.dry.multiplier);
  expects(std::isfinite(options.dry.base) && options.dry.base >= 1,
          "decoding::PenaltyOptions: dry.base is ", options.dry.base);
  expects(options.dry.allowed_length >= 1, "decoding::PenaltyOptions: dry.allowed_length is ",
          options.dry.allowed_length);
  expects(options.dry.last >= 0, "decoding::PenaltyOptions: dry.last is ", options.dry.last);
  for (const auto& [token, bias] : options.bias) {
    expects(token >= 0 && token < vocabulary, "decoding::PenaltyOptions: a bias for token ", token,
            " of a vocabulary of ", vocabulary);
    expects(bias < std::numeric_limits<float>::infinity(),
            "decoding::PenaltyOptions: the bias of token ", token, " is ", bias);
  }
}

DECANT_INLINE void allow_only(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  if (allowed.empty()) return;
  expects(allowed.size() == (logits.size() + 31) / 32, "decoding::allow_only: ", allowed.size(),
          " words for ", logits.size(), " tokens");
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if ((allowed[token / 32] >> (token % 32) & 1) == 0) {
      logits[token] = -std::numeric_limits<float>::infinity();
    }
  }
}

DECANT_INLINE Penalties::Penalties(const PenaltyOptions& options, Index vocabulary)
    : options_(options), vocabulary_(vocabulary) {
  decoding::check(options, vocabulary);
  const auto all = static_cast<std::size_t>(vocabulary);
  if (counts()) counts_.resize(all);
  if (options.dry.multiplier > 0) lengths_.resize(all);
}

DECANT_INLINE void Penalties::apply(std::span<float> logits, const History& history) {
  expects(std::ssize(logits) == vocabulary_, "decoding::Penalties: ", logits.size(),
          " logits for a vocabulary of ", vocabulary_);
  for (const auto& [token, bias] : options_.bias) logits[static_cast<std::size_t>(token)] += bias;
  if (counts()) penalise(logits, history);
  if (options_.dry.multiplier > 0)
    penalise_repetitions(logits, last_of(history.tokens, options_.dry.last));
}

DECANT_INLINE void ban(std::span<float> logits, std::span<const Token> tokens) noexcept {
  for (Token token : tokens) {
    if (token < 0 || token >= std::ssize(logits)) continue;
    logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
}

DECANT_INLINE bool Penalties::is_breaker(Token token) const {
  return std::ranges::count(options_.dry.breakers, token) > 0;
}

DECANT_INLINE bool Penalties::counts() const noexcept {
  return options_.repetition != 1 || options_.presence != 0 || options_.frequency != 0;
}

DECANT_INLINE std::span<const Token> Penalties::last_of(std::span<const Token> tokens, Index last) {
  return last == 0 || last >= std::ssize(tokens) ? tokens
                                                 : tokens.last(static_cast<std::size_t>(last));
}

DECANT_INLINE void Penalties::check(std::span<const Token> tokens) const {
  for (Token token : tokens) {
    expects(token >= 0 && token < vocabulary_, "decoding::Penalties: token ", token,
            " is outside the vocabulary of ", vocabulary_);
  }
}

DECANT_INLINE void Penalties::penalise(std::span<float> logits, const History& history) {
  const auto tokens = last_of(history.tokens, options_.last);
  check(tokens);
  const Index skipped = std::ssize(history.tokens) - std::ssize(tokens);
  for (Index at = 0; at < std::ssize(tokens); ++at) {
    const bool of_prompt = skipped + at < history.prompt;
    Count& count = count_of(tokens[static_cast<std::size_t>(at)]);
    if (!of_prompt || options_.repetition_of_prompt) count.repeated += 1;
    if (!of_prompt || options_.presence_of_prompt) count.present += 1;
  }
  for (Token token : tokens) {  // a token's first occurrence takes its counts
    const Count count = std::exchange(count_of(token), Count{});
    float& logit = logits[static_cast<std::size_t>(token)];
    double penalised = logit;
    if (count.repeated > 0) {
      penalised = penalised > 0 ? penalised / options_.repetition : penalised * options_.repetition;
    }
    if (count.present > 0) {
      penalised -= options_.presence + options_.frequency * static_cast<double>(count.present);
    }
    logit = static_cast<float>(penalised);
  }
}

DECANT_INLINE void Penalties::match(std::span<const Token> tokens) {
  const std::size_t size = tokens.size();
  const auto back = [&](std::size_t n) { return tokens[size - 1 - n]; };
  std::size_t reach = 0;  // last tokens without a breaker
  while (reach < size && !is_breaker(back(reach))) ++reach;
  matches_.assign(size, 0);
  std::size_t left = 0, right = 0;  // the Z function of the tokens read backwards
  for (std::size_t at = 1; at < size; ++at) {
    std::size_t length = at < right ? std::min(right - at, matches_[at - left]) : 0;
    while (at + length < size && back(length) == back(at + length)) ++length;
    matches_[at] = length;
    if (at + length > right) {
      left = at;
      right = at + length;
    }
  }
  for (std::size_t& length : matches_) length = std::min(length, reach);
}

DECANT_INLINE void Penalties::penalise_repetitions(std::span<float> logits,
                                                   std::span<const Token> tokens) {
  check(tokens);
  match(tokens);
  const auto allowed = static_cast<std::size_t>(options_.dry.allowed_length);
  const auto next = [&](std::size_t at) { return tokens[tokens.size() - at]; };
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    std::size_t& longest = lengths_[static_cast<std::size_t>(next(at))];
    longest = std::max(longest, matches_[at]);
  }
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    const auto token = static_cast<std::size_t>(next(at));
    const std::size_t length = std::exchange(lengths_[token], 0);
    if (length < allowed || is_breaker(next(at))) continue;
    const double cost = options_.dry.multiplier *
                        std::pow(options_.dry.base, static_cast<double>(length - allowed));
    if (std::isinf(logits[token])) continue;
    logits[token] = static_cast<float>(
        std::max(logits[token] - cost, double{std::numeric_limits<float>::lowest()}));
  }
}

}  // namespace decant::inline DECANT_ABI::decoding
