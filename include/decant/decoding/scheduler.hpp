// decant/decoding/scheduler.hpp - continuous batching: many requests over one pool of pages, whose
// steps have rows of all of them.
//
// Requests run in the order of priority, which waiting raises, then of arrival, as many as there
// are sequences and pages for. A step has a row of each request that decodes, then chunks of
// prompts (chunked prefill), then drafts in the rows and pages that are left. If pages run out, the
// last request is preempted: it gives its pages back and waits again; what it had is recomputed, to
// the same bits. So neither the other sequences of the batch nor preemption change a token of a
// request.
//
// A scheduler refuses verification by rejection: how many drafts a request has depends on what the
// others leave, and under rejection its tokens would depend on their number.
//
// Source      Yu et al. 2022, "Orca" (scheduling by the step); Agrawal et al. 2023, "SARATHI",
//             arXiv:2308.16369 (chunked prefill)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/engine.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace decant::inline DECANT_ABI::decoding {

// Borrows decoder, workspace, pool and tree, which must outlive it. The workspace says how many
// rows a step has and, by its rows of logits and its sequences, how many requests may run at once;
// scheduler_limits() gives its limits.
//
// Without a tree no prefix is cached. If stores outside of the scheduler take pages of the pool
// too, a request that finds none left although it runs alone ends with cache_full.
//
// Cost     step() is one step of the decoder, and beside it O(running^2 + waiting), a look-up of
//          the tokens of every request that is considered for running, a pass over the tokens that
//          are cached (at the end of a prompt or a request, and at preemption), and what samplers
//          take. submit() copies the prompt; cancel() and preempt() look through all requests
// Threads  one owner, with the pool and the tree; check() alone may be called by anyone
class Scheduler {
 public:
  // Errors   std::invalid_argument: invalid options, a pool or a workspace made for another model,
  //          a tree of another pool, a workspace with room for fewer requests than max_running, or
  //          for a single one if that is not set
  template <codec::Codec K, codec::Codec V>
  Scheduler(const model::Decoder& decoder, model::Workspace& workspace, kv::PagePool<K, V>& pool,
            const SchedulerOptions& options = {},
            std::type_identity_t<kv::PrefixTree<K, V>>* tree = nullptr)
      : engine_(
            detail::PagedRuns<kv::Paged<K, V>>::engine(decoder, workspace, pool, options, tree)) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Refuses a request that could never run.
  //
  // Errors   std::invalid_argument (an empty prompt or one longer than learned positions, ids
  //          outside the vocabulary, invalid options, recompute, verification by rejection),
  //          CacheFull if prompt and new tokens take more pages than there are
  void check(const Request& request) const { engine_->check(request); }

  // Takes a request in; the next step may run it. Its times count from `since`.
  //
  // Errors   as check(), and std::bad_alloc; nothing changed then
  RequestId submit(Request request, const Stopwatch& since = {}) {
    return engine_->submit(std::move(request), since);
  }

  // Ends a request with the next step; false if there is no such request.
  bool cancel(RequestId id) noexcept { return engine_->cancel(id); }

  // Preempts a running request, so that another user of the pool can take its pages; the next step
  // may let it run again. False if no such request runs, and within a step.
  bool preempt(RequestId id) noexcept { return engine_->preempt(id); }

  // Runs one step of the running requests. Its events are the caller's, to move from, until the
  // next step; those of a step that threw come with the next.
  //
  // Errors   std::bad_alloc, and whatever the workspace's executor throws; no request has lost
  //          anything then, and the next step goes on. What samplers, masks, sinks and drafters
  //          throw ends their request alone, with Reason::failed. std::invalid_argument if one of
  //          those calls step()
  std::span<Event> step() { return engine_->step(); }

  // Ends all requests at once: with Reason::failed if there is an error, otherwise with
  // Reason::cancelled.
  //
  // Errors   std::bad_alloc, and some requests are then left; std::invalid_argument within a step
  std::span<Event> end_all(const std::exception_ptr& error = {}) { return engine_->end_all(error); }

  bool idle() const noexcept { return running() == 0 && waiting() == 0; }
  Index running() const noexcept { return engine_->running(); }
  Index waiting() const noexcept { return engine_->waiting(); }
  const SchedulerStatistics& statistics() const noexcept { return engine_->statistics(); }

 private:
  std::unique_ptr<detail::Engine> engine_;
};

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/paged_engine.hpp>
#endif
