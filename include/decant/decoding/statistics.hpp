// decant/decoding/statistics.hpp - what one run took: tokens, seconds and bytes.
//
// Counts and times are stored, rates are derived, so that runs can be added up before anyone
// divides. Times are differences of a steady clock and include what the token sink does.
//
// Depends on  core/types.hpp
// Tested by   tests/decoding/statistics_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <chrono>

namespace decant::inline v0::decoding {

// Units    tokens, seconds, bytes; a rate of nothing is 0
struct Statistics {
  Index prompt_tokens = 0;
  Index cached_tokens = 0;         // of the prompt, taken from the store
  Index generated_tokens = 0;      // delivered; an end token is not
  Index proposed_tokens = 0;       // by a drafter, and verified
  Index accepted_tokens = 0;       // of those
  double prefill_seconds = 0;      // from the call to the logits of the last prompt token
  double time_to_first_token = 0;  // from the call until the first token is known
  double decode_seconds = 0;       // from the first token to the last
  Index cache_bytes = 0;           // what the store occupies

  Index computed_prompt_tokens() const noexcept { return prompt_tokens - cached_tokens; }

  // The mean over the tokens after the first, in seconds.
  double time_per_output_token() const noexcept {
    return ratio(decode_seconds, static_cast<double>(generated_tokens - 1));
  }
  double prefill_tokens_per_second() const noexcept {
    return ratio(static_cast<double>(computed_prompt_tokens()), prefill_seconds);
  }
  double decode_tokens_per_second() const noexcept {
    return generated_tokens > 1 ? ratio(static_cast<double>(generated_tokens - 1), decode_seconds)
                                : 0.0;
  }

 private:
  static double ratio(double amount, double per) noexcept { return per > 0 ? amount / per : 0.0; }
};

// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace decant::inline v0::decoding
