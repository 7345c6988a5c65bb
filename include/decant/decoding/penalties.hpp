// decant/decoding/penalties.hpp - token masks, logit biases, and penalties on tokens that came
// before.
//
// Before any filter, in this order: tokens that are not allowed are banned, biases are added,
// repetition divides, presence and frequency subtract, DRY subtracts.
//
//   repetition   l > 0 ? l / r : l * r      once for each distinct token
//   presence     l - presence               likewise
//   frequency    l - frequency * count
//   DRY          l - multiplier * base^(n - allowed)   for a token that would continue a repetition
//                                                      of n >= allowed tokens
//
// Engines differ in which tokens count (decoding/sampler.hpp has their presets).
//
// Source      repetition: Keskar et al. 2019, arXiv:1909.05858; presence and frequency as in the
//             OpenAI interface; DRY: p-e-w 2024,
//             github.com/oobabooga/text-generation-webui/pull/5677
// Tested by   tests/decoding/penalties_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// A sequence so far, of which the caller gave the first `prompt` tokens.
struct History {
  std::span<const Token> tokens = {};
  Index prompt = 0;
};

struct DryOptions {
  double multiplier = 0.0;  // 0: off
  double base = 1.75;
  Index allowed_length = 2;  // of the longest repetition without a penalty
  Index last = 0;            // tokens that are searched, from the end; 0: all
  // A repetition does not extend across one of them, and none of them is penalised.
  std::vector<Token> breakers = {};

  friend bool operator==(const DryOptions&, const DryOptions&) = default;
};

struct PenaltyOptions {
  double repetition = 1.0;  // 1: off
  double presence = 0.0;
  double frequency = 0.0;
  Index last = 0;                    // tokens that count, from the end; 0: all
  bool repetition_of_prompt = true;  // whether tokens of the prompt count, for repetition,
  bool presence_of_prompt = false;   // and for presence and frequency
  DryOptions dry = {};
  std::vector<std::pair<Token, float>> bias = {};  // -infinity bans

  friend bool operator==(const PenaltyOptions&, const PenaltyOptions&) = default;
};

// Refuses invalid options.
//
// Errors   std::invalid_argument naming the option and its value
void check(const PenaltyOptions& options, Index vocabulary);

// Bans every token whose bit is not set: token t is bit t % 32, from the lowest, of word t / 32. No
// words ban nothing.
//
// Shape    allowed is [ceil(vocabulary / 32)] or empty
// Errors   std::invalid_argument on another number of words
void allow_only(std::span<float> logits, std::span<const std::uint32_t> allowed);

// Bans tokens of a row; ids outside it are ignored.
//
// Shape    logits are [vocabulary]
void ban(std::span<float> logits, std::span<const Token> tokens) noexcept;

// Applies biases and penalties under fixed options.
//
// Shape    logits are [vocabulary]
// Errors   the constructor: as check(). apply(): std::invalid_argument on another number of logits
//          or a token that counts and is outside the vocabulary
// Cost     O(tokens that count); memory for two counts per token of the vocabulary if penalties are
//          on, and for the tokens that DRY searches
// Threads  one owner
class Penalties {
 public:
  Penalties(const PenaltyOptions& options, Index vocabulary);

  void apply(std::span<float> logits, const History& history);

 private:
  struct Count {
    std::uint32_t repeated = 0;  // for repetition
    std::uint32_t present = 0;   // for presence and frequency
  };

  bool counts() const noexcept;
  bool is_breaker(Token token) const;
  static std::span<const Token> last_of(std::span<const Token> tokens, Index last);
  void check(std::span<const Token> tokens) const;
  Count& count_of(Token token) { return counts_[static_cast<std::size_t>(token)]; }

  void penalise(std::span<float> logits, const History& history);

  // matches_[i]: how many of the last tokens stand in the same order i tokens earlier, up to a
  // breaker.
  void match(std::span<const Token> tokens);

  // Subtracts from each token's logit the DRY penalty of the longest repetition that it would
  // continue.
  void penalise_repetitions(std::span<float> logits, std::span<const Token> tokens);

  PenaltyOptions options_;
  Index vocabulary_;
  std::vector<Count> counts_;         // zeros between calls
  std::vector<std::size_t> lengths_;  // likewise
  std::vector<std::size_t> matches_;
};

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/penalties.hpp>
#endif
