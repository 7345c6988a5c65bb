// decant/decoding/statistics.hpp - tokens, seconds and bytes of one run, and of all requests of a
// scheduler.
//
// Counts and times are stored and rates derived, so that runs can be added up before a rate is
// taken. Times are differences of a steady clock and include what the token sink does.
//
// Tested by   tests/decoding/statistics_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <chrono>

namespace decant::inline DECANT_ABI::decoding {

// Units    tokens, seconds, bytes; a rate of nothing is 0
struct Statistics {
  Index prompt_tokens = 0;
  Index cached_tokens = 0;         // of the prompt, taken from the store
  Index generated_tokens = 0;      // delivered; an end token is not
  Index proposed_tokens = 0;       // by a drafter, and verified
  Index accepted_tokens = 0;       // of those
  double prefill_seconds = 0;      // from the call (or first run) to the last prompt token's logits
  double time_to_first_token = 0;  // from the call, or submit(), until the first token is known
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

// Counts and times, added up over all requests of a scheduler.
//
// Units    tokens, requests, steps, seconds; a mean of nothing is 0
struct SchedulerStatistics {
  Index submitted = 0;
  Index ran = 0;
  Index answered = 0;  // that have a first token
  Index ended = 0;     // for any reason
  Index failed = 0;
  Index preemptions = 0;
  Index steps = 0;
  Index prompt_tokens = 0;  // of requests that ran; cached tokens are among them
  Index cached_tokens = 0;
  Index computed_tokens = 0;  // rows of steps
  Index generated_tokens = 0;
  double step_seconds = 0;         // inside of model::Decoder::step()
  double queue_seconds = 0;        // from submit() until they first ran
  double first_token_seconds = 0;  // from submit() to the first token
  double decode_seconds = 0;       // from the first token to the last

  double mean_queue_seconds() const noexcept { return mean(queue_seconds, ran); }
  double time_to_first_token() const noexcept { return mean(first_token_seconds, answered); }
  double time_per_output_token() const noexcept {
    return mean(decode_seconds, generated_tokens - answered);
  }

 private:
  static double mean(double sum, Index count) noexcept {
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
  }
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

}  // namespace decant::inline DECANT_ABI::decoding
