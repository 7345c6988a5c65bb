// decant/decoding/request.hpp - a request to a scheduler, and the events by which it is answered.
//
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/model/batch.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

using RequestId = std::uint64_t;

// Scheduler::step() calls the functions; what they throw ends their request alone. They may submit
// and cancel requests, but neither step nor preempt.
struct Request {
  std::vector<Token> prompt = {};
  GenerateOptions options = {};  // max_seconds counts from when it is submitted
  int priority = 0;              // the higher one first
  // Pages are shared within one namespace. Its `adapter` follows from options.adapter and stays 0.
  kv::CacheNamespace cache_namespace = {};
  // Replaces `branches` by branches of at most `most` draft tokens: they save steps and change no
  // token. drafts_of() makes it of a drafter.
  std::function<void(const History&, Index most, Branches& branches)> drafter = {};
  // Gets each new token; false ends the text after that token.
  std::function<bool(const NewToken&)> sink = {};
};

// The namespace in which a scheduler caches the prefix of a request: its own, and its adapter's.
inline kv::CacheNamespace namespace_of(const Request& request) noexcept {
  kv::CacheNamespace space = request.cache_namespace;
  if (request.options.adapter != nullptr) space.adapter = request.options.adapter->id();
  return space;
}

// Makes Request::drafter of a drafter.
template <class D>
requires(Drafter<D> || TreeDrafter<D>)
auto drafts_of(D drafter) {
  return [drafter = std::move(drafter)](const History& history, Index most,
                                        Branches& branches) mutable {
    detail::propose<TreeDrafter<D>>(drafter, history, most, branches);
  };
}

// How a request ended.
struct Outcome {
  Generation generation = {};     // of a failed request, the tokens before
  std::exception_ptr error = {};  // what was thrown, if the reason is Reason::failed
  double queue_seconds = 0;       // from when it was submitted until it ran first
  Index preemptions = 0;
  Index computed_tokens = 0;  // rows of steps, with drafts and recomputed tokens
};

// What a step did for one request. The last event of a request has its outcome.
struct Event {
  RequestId request = 0;
  std::vector<NewToken> tokens = {};  // in order
  std::optional<Outcome> outcome = {};
};

struct SchedulerOptions {
  // Requests that run at once; without a value, as many as the workspace has room for.
  std::optional<Index> max_running = {};
  // Chunked prefill: tokens of prompts in a step in which other requests decode.
  Index prefill_token_budget = std::numeric_limits<Index>::max();
  // Pages in use at once; never more than the pool has.
  Index max_pages = std::numeric_limits<Index>::max();
  // How many steps of waiting outweigh one level of priority, so that no request waits for ever.
  Index ageing_steps = 1000;
};

// The limits of a workspace with room for so many running requests, each with so many drafts.
//
// Units    rows: tokens of a step, those of prompts included; more if the requests need them
// Errors   std::invalid_argument on a count below 1, or drafts below 0, or beyond 64 bits
inline model::Limits scheduler_limits(Index max_running, Index rows = 256, Index drafts = 0) {
  expects(max_running > 0 && rows > 0 && drafts >= 0, "decoding::scheduler_limits: ", max_running,
          " running requests, ", rows, " rows, ", drafts, " drafts");
  const Index logit_rows = checked_product(max_running, checked_sum(drafts, 1));
  return {.rows = std::max(rows, logit_rows), .logit_rows = logit_rows, .sequences = max_running};
}

// Errors   std::invalid_argument naming the option and its value
inline void check(const SchedulerOptions& options) {
  const auto positive = [](Index number, const char* name) {
    expects(number > 0, "decoding::SchedulerOptions: ", name, " is ", number);
  };
  positive(options.max_running.value_or(1), "max_running");
  positive(options.prefill_token_budget, "prefill_token_budget");
  positive(options.max_pages, "max_pages");
  positive(options.ageing_steps, "ageing_steps");
  expects(options.ageing_steps <= std::numeric_limits<std::int32_t>::max(),
          "decoding::SchedulerOptions: ageing_steps is ", options.ageing_steps);
}

}  // namespace decant::inline DECANT_ABI::decoding
