// decant/decoding/request.hpp - what a scheduler is asked for, and what it tells of it.
//
// Depends on  core/error.hpp, decoding/{drafter,generation,history}.hpp, kv/prefix.hpp
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/history.hpp>
#include <decant/kv/prefix.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

using RequestId = std::uint64_t;

// Functions are called by step(); what they throw ends their request alone. They may submit and
// cancel requests, but neither step nor preempt.
struct Request {
  std::vector<Token> prompt = {};
  GenerateOptions options = {};             // max_seconds counts from when the scheduler gets it
  int priority = 0;                         // the higher one first
  kv::CacheNamespace cache_namespace = {};  // with whose prompts beginnings may be shared
  // Adds guesses to the empty list, so many at most: they save steps and change no token. A
  // drafter's are drafts_of() it.
  std::function<void(const History&, Index most, std::vector<Token>& guesses)> drafter = {};
  // Gets each new token; false ends the text behind it.
  std::function<bool(Token)> sink = {};
};

// Any drafter as a request's.
template <Drafter D>
auto drafts_of(D drafter) {
  return [drafter = std::move(drafter)](const History& history, Index most,
                                        std::vector<Token>& guesses) mutable {
    const std::span<const Token> found = drafter.propose(history, most);
    guesses.assign(found.begin(), found.end());
  };
}

// How a request ended.
struct Outcome {
  Generation generation = {};     // of a failed one, the tokens before
  std::exception_ptr error = {};  // what failed, where the reason is Reason::failed
  double queue_seconds = 0;       // from when the scheduler got it until it ran first
  Index preemptions = 0;
  Index computed_tokens = 0;  // rows of steps, drafts and what was recomputed among them
};

// What a step brought one request. The last event of a request has its outcome.
struct Event {
  RequestId request = 0;
  std::vector<Token> tokens = {};  // new ones, in order
  std::optional<Outcome> outcome = {};
};

struct SchedulerOptions {
  // Tokens of prompts in a step in which others decode: what those wait for a prompt to enter.
  Index prefill_token_budget = std::numeric_limits<Index>::max();
  // Pages in use at once; never more than the pool has.
  Index max_pages = std::numeric_limits<Index>::max();
  // How many steps of waiting outweigh one step of priority, so that nobody waits for ever.
  Index ageing_steps = 1000;
};

// Errors   std::invalid_argument naming the option and its value
inline void check(const SchedulerOptions& options) {
  const auto positive = [](Index number, const char* name) {
    expects(number > 0, "decoding::SchedulerOptions: ", name, " is ", number);
  };
  positive(options.prefill_token_budget, "prefill_token_budget");
  positive(options.max_pages, "max_pages");
  positive(options.ageing_steps, "ageing_steps");
  expects(options.ageing_steps <= std::numeric_limits<std::int32_t>::max(),
          "decoding::SchedulerOptions: ageing_steps is ", options.ageing_steps);
}

// Counts and times of all requests since the scheduler was made; times from when it got them.
//
// Units    tokens, requests, steps, seconds; a mean of nothing is 0
struct SchedulerStatistics {
  Index submitted = 0;
  Index ran = 0;
  Index answered = 0;  // with a first token at least
  Index ended = 0;     // in whatever way
  Index failed = 0;
  Index preemptions = 0;
  Index steps = 0;
  Index prompt_tokens = 0;  // of requests that ran: cached ones, and those that were computed
  Index cached_tokens = 0;
  Index computed_tokens = 0;  // rows of steps
  Index generated_tokens = 0;
  double step_seconds = 0;         // inside of model::Decoder::step()
  double queue_seconds = 0;        // until they ran first
  double first_token_seconds = 0;  // until the first token
  double decode_seconds = 0;       // from there to the last

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

}  // namespace decant::inline v0::decoding
