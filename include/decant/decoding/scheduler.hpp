// decant/decoding/scheduler.hpp - many requests over one pool, in steps of rows of all of them.
//
// The requests that run are those first by priority, which waiting raises, then by arrival, as many
// as there are places and pages for. A step has a row of each that decodes, then chunks of prompts,
// then guesses of drafters with what rows are left. Where pages run out, the last one gives back
// its own and waits again; what it had is computed anew, to the same bits. So which company a
// request has, and how often it is put off, changes no token of it.
//
// Depends on  decoding/{admission,continuation,event_list,job,request}.hpp,
//             model/{batch,decoder,store_check,workspace}.hpp, kv/{page_pool,paged,prefix_tree}.hpp
// Source      Yu et al. 2022, "Orca" (scheduling by the step)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/admission.hpp>
#include <decant/decoding/continuation.hpp>
#include <decant/decoding/event_list.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/job.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace decant::inline v0::decoding {

// Borrows decoder, workspace, pool and tree, which must outlive it. The workspace says how many
// rows a step has and, by its rows of logits and its sequences, how many requests run at once.
//
// Without a tree nothing is shared between requests. Where others take pages of the pool too, a
// request that finds none left though it runs alone ends with cache_full.
//
// Cost     a step is one step, and beside it O(running^2 + waiting), the tokens of the prompts that
//          are looked up in a tree (those that begin to run, and the first that may not, each
//          step) or kept there (at the end of a prompt, of a request, and when it is put off), and
//          what samplers take. submit() copies the prompt; cancel() and preempt() look through
//          all requests
// Threads  one owner, with the pool and the tree; check() alone may be called by anyone
template <codec::Codec K, codec::Codec V = K>
class Scheduler {
 public:
  using Store = kv::Paged<K, V>;

  // Errors   std::invalid_argument: options, or a pool, a tree or a workspace made for others
  Scheduler(const model::Decoder& decoder, model::Workspace& workspace, kv::PagePool<K, V>& pool,
            const SchedulerOptions& options = {}, kv::PrefixTree<K, V>* tree = nullptr)
      : decoder_(decoder),
        workspace_(workspace),
        pool_(pool),
        options_(options),
        admission_(pool, tree, std::min(options.max_pages, pool.total_pages()),
                   places(workspace.limits()), statistics_) {
    decoding::check(options);
    expects(tree == nullptr || &tree->pool() == &pool, kWho, ": a tree of another pool");
    expects(workspace.config() == decoder.config(), kWho,
            ": the workspace was made for another configuration");
    model::check(decoder.config(), Store(pool), kWho);
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Refuses what could never run.
  //
  // Errors   std::invalid_argument (an empty prompt, ids outside the vocabulary, options; to
  //          recompute, and guesses judged by rejection, which would make tokens depend on
  //          company), CacheFull where prompt and new tokens take more pages than there are
  void check(const Request& request) const {
    decoding::check(request.options, request.prompt, decoder_.config(), kWho);
    admission_.check(request, decoder_.positions(), kWho);
  }

  // Takes a request in; the next step may run it.
  //
  // Errors   as check(), and std::bad_alloc; nothing changed then
  RequestId submit(Request request) {
    admission_.check(request, decoder_.positions(), kWho);  // its text checks the rest
    const RequestId id = last_ + 1;
    const typename Admission::Place place = {steps_ - request.priority * options_.ageing_steps, id};
    admission_.waiting().try_emplace(place, id, std::move(request), decoder_.config(), pool_, kWho);
    statistics_.submitted += 1;
    return last_ = id;
  }

  // Ends a request with the next step; false where there is none of that name.
  bool cancel(RequestId id) noexcept {
    for (Jobs* jobs : {&admission_.running(), &admission_.waiting()}) {
      const auto at = Admission::find(*jobs, id);
      if (at == jobs->end()) continue;
      at->second.cancelled = true;
      return true;
    }
    return false;
  }

  // Takes its pages from a request that runs, for somebody else who needs them before the next
  // step, which may let it run again; false where none does of that name, and in a step.
  bool preempt(RequestId id) noexcept {
    if (stepping_) return false;
    const auto at = Admission::find(admission_.running(), id);
    if (at == admission_.running().end()) return false;
    admission_.preempt(at);
    return true;
  }

  // One step of those that run, and what it brought: the caller's until the next step. Events of a
  // step that threw come with the next.
  //
  // Errors   std::bad_alloc, and whatever the workspace's executor throws; no request has lost
  //          anything then, and the next step goes on. What samplers, masks, sinks and drafters
  //          throw ends their request alone, with Reason::failed. std::invalid_argument where it is
  //          called by one of those
  std::span<Event> step() {
    expects(!stepping_, kWho, ": a step within a step");
    const Stepping now(stepping_);
    events_.begin();
    steps_ += 1;
    end_interrupted();
    admission_.admit();
    detail::share_rows(admission_.running(), workspace_.limits().rows,
                       options_.prefill_token_budget);
    propose_drafts();
    secure_pages();
    events_.make_room(running());
    if (run_step()) take_tokens();
    return events_.tell();
  }

  // Ends all requests at once: with Reason::failed where there is an error, or as cancelled.
  //
  // Errors   std::bad_alloc; some are then left. std::invalid_argument in a step
  std::span<Event> end_all(const std::exception_ptr& error = {}) {
    expects(!stepping_, kWho, ": all ended within a step");
    events_.begin();
    const Reason reason = error ? Reason::failed : Reason::cancelled;
    for (Jobs* jobs : {&admission_.running(), &admission_.waiting()}) {
      for (auto at = jobs->begin(); at != jobs->end();) at = end(*jobs, at, reason, error);
    }
    return events_.tell();
  }

  bool idle() const noexcept { return running() == 0 && waiting() == 0; }
  Index running() const noexcept { return std::ssize(admission_.running()); }
  Index waiting() const noexcept { return std::ssize(admission_.waiting()); }
  const SchedulerStatistics& statistics() const noexcept { return statistics_; }

 private:
  static constexpr const char* kWho = "decoding::Scheduler";

  using Admission = detail::Admission<K, V>;
  using Job = detail::Job<K, V>;
  using Jobs = typename Admission::Jobs;
  using Iterator = typename Admission::Iterator;

  // Says so while it lives.
  class Stepping {
   public:
    explicit Stepping(bool& flag) noexcept : flag_(flag) { flag_ = true; }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;
    ~Stepping() { flag_ = false; }

   private:
    bool& flag_;
  };

  static Index places(const model::Limits& limits) noexcept {
    return std::min({limits.rows, limits.logit_rows, limits.sequences});
  }

  void end_interrupted() {
    for (Jobs* jobs : {&admission_.running(), &admission_.waiting()}) {
      for (auto at = jobs->begin(); at != jobs->end();) {
        const auto why = at->second.cancelled ? std::optional(Reason::cancelled)
                                              : at->second.text.interruption();
        at = why ? end(*jobs, at, *why) : std::next(at);
      }
    }
  }

  // Tells how a request ended, and forgets it; the next one. Allocates nothing where there is room
  // for an event.
  Iterator end(Jobs& jobs, Iterator at, Reason reason, std::exception_ptr error = {}) {
    events_.make_room(1);
    Job& job = at->second;
    if (!error) admission_.keep(job);
    Outcome& outcome = job.outcome;
    job.text.statistics().cache_bytes = job.store.bytes();
    outcome.generation = job.text.finish(reason);
    outcome.error = std::move(error);
    statistics_.ended += 1;
    statistics_.failed += reason == Reason::failed;
    events_.add({job.id, std::move(job.fresh), std::move(outcome)});
    return jobs.erase(at);
  }

  // Guesses with what rows are left.
  void propose_drafts() {
    const model::Limits& limits = workspace_.limits();
    Index rows = limits.rows, logits = limits.logit_rows;
    for (const auto& [place, job] : admission_.running()) {
      rows -= job.rows;
      logits -= job.logits();
    }
    for (auto at = admission_.running().begin(); at != admission_.running().end();) {
      Job& job = at->second;
      const Index room = decoder_.positions() - std::ssize(job.text.sequence());
      const Index most = std::min({rows, logits, room});
      job.fresh.reserve(static_cast<std::size_t>(std::max<Index>(0, most)) + 1);
      try {
        detail::propose_drafts(job, most, decoder_.config(), kWho);
      } catch (...) {
        at = end(admission_.running(), at, Reason::failed, std::current_exception());
        continue;
      }
      rows -= std::ssize(job.drafts);
      logits -= std::ssize(job.drafts);
      ++at;
    }
  }

  void secure_pages() {
    const auto stuck = admission_.secure();
    if (stuck != admission_.running().end()) {
      end(admission_.running(), stuck, Reason::cache_full);
    }
  }

  // Whether there was anything to do.
  bool run_step() {
    detail::fill(batch_, admission_.running());
    if (batch_.rows() == 0) return false;
    const Stopwatch watch;
    decoder_.step(batch_, workspace_);
    statistics_.step_seconds += watch.seconds();
    statistics_.steps += 1;
    statistics_.computed_tokens += batch_.rows();
    return true;
  }

  void take_tokens() {
    Index row = 0;
    for (auto at = admission_.running().begin(); at != admission_.running().end();) {
      Job& job = at->second;
      job.outcome.computed_tokens += job.fed();
      job.text.statistics().proposed_tokens += std::ssize(job.drafts);
      const bool computed = job.rows > 0 && std::ssize(job.text.sequence()) <= job.store.end();
      const Index first = row;
      if (computed) row += 1 + std::ssize(job.drafts);
      at = computed ? take(at, first) : std::next(at);
    }
  }

  // The tokens of a request whose rows of logits begin with `first`; the next request.
  Iterator take(Iterator at, Index first) {
    Job& job = at->second;
    const bool prompt = job.text.generated() == 0;
    auto [ended, error] = detail::take_tokens(job, workspace_, first, statistics_);
    if (!ended && std::ssize(job.text.sequence()) > decoder_.positions()) {
      ended = Reason::positions_full;
    }
    if (ended) return end(admission_.running(), at, *ended, std::move(error));
    if (prompt) admission_.keep(job);
    events_.add({job.id, std::exchange(job.fresh, {}), {}});
    return std::next(at);
  }

  const model::Decoder& decoder_;
  model::Workspace& workspace_;
  kv::PagePool<K, V>& pool_;
  SchedulerOptions options_;
  model::Batch<Store> batch_;
  detail::EventList events_;
  bool stepping_ = false;
  std::int64_t steps_ = 0;
  RequestId last_ = 0;
  SchedulerStatistics statistics_;
  Admission admission_;
};

}  // namespace decant::inline v0::decoding
