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

#include <decant/decoding/detail/admission.hpp>
#include <decant/decoding/request.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>

namespace decant::inline v0::decoding {

template <codec::Codec K, codec::Codec V>
class Service;

// Borrows decoder, workspace, pool and tree, which must outlive it. The workspace says how many
// rows a step has and, by its rows of logits and its sequences, how many requests run at once.
//
// Without a tree no prefix is cached. If stores outside of the scheduler take pages of the pool
// too, a request that finds none left although it runs alone ends with cache_full.
//
// Cost     step() is one step of the decoder, and beside it O(running^2 + waiting), a look-up of
//          the tokens of every request that is considered for running, a pass over the tokens that
//          are cached (at the end of a prompt or a request, and at preemption), and what samplers
//          take. submit() copies the prompt; cancel() and preempt() look through all requests
// Threads  one owner, with the pool and the tree; check() alone may be called by anyone
template <codec::Codec K, codec::Codec V = K>
class Scheduler {
 public:
  using Store = kv::Paged<K, V>;

  // Errors   std::invalid_argument: invalid options, a pool or a workspace made for another model,
  //          a tree of another pool
  Scheduler(const model::Decoder& decoder, model::Workspace& workspace, kv::PagePool<K, V>& pool,
            const SchedulerOptions& options = {}, kv::PrefixTree<K, V>* tree = nullptr)
      : steps_{decoder, workspace},
        pool_(pool),
        options_(options),
        admission_(pool, tree, std::min(options.max_pages, pool.total_pages()),
                   max_running(workspace.limits()), ledger_) {
    decoding::check(options);
    expects(tree == nullptr || &tree->pool() == &pool, kWho, ": a tree of another pool");
    expects(workspace.config() == decoder.config(), kWho,
            ": the workspace was made for another configuration");
    model::check(decoder.config(), Store(pool), kWho);
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Refuses a request that could never run.
  //
  // Errors   std::invalid_argument (an empty prompt or one longer than learned positions, ids
  //          outside the vocabulary, invalid options, recompute, verification by rejection),
  //          CacheFull if prompt and new tokens take more pages than there are
  void check(const Request& request) const {
    detail::check(request.options, request.prompt, steps_.decoder.config(), kWho);
    admission_.check(request, detail::room(steps_.decoder), kWho);
  }

  // Takes a request in; the next step may run it.
  //
  // Errors   as check(), and std::bad_alloc; nothing changed then
  RequestId submit(Request request) {
    check(request);
    return enter(std::move(request), {});
  }

  // Ends a request with the next step; false if there is no such request.
  bool cancel(RequestId id) noexcept {
    Job* const job = admission_.find(id);
    if (job != nullptr) job->cancelled = true;
    return job != nullptr;
  }

  // Preempts a running request, so that another user of the pool can take its pages; the next step
  // may let it run again. False if no such request runs, and within a step.
  bool preempt(RequestId id) noexcept { return !stepping_ && admission_.preempt(id); }

  // Runs one step of the running requests. Its events are the caller's, to move from, until the
  // next step; those of a step that threw come with the next.
  //
  // Errors   std::bad_alloc, and whatever the workspace's executor throws; no request has lost
  //          anything then, and the next step goes on. What samplers, masks, sinks and drafters
  //          throw ends their request alone, with Reason::failed. std::invalid_argument if one of
  //          those calls step()
  std::span<Event> step() {
    expects(!stepping_, kWho, ": step() within a step");
    const Stepping now(stepping_);
    events_.begin();
    count_ += 1;
    end_interrupted();
    admission_.admit();
    plan_rows();
    propose_drafts();
    secure_pages();
    events_.make_room(running());
    if (run()) accept();
    return events_.take();
  }

  // Ends all requests at once: with Reason::failed if there is an error, otherwise with
  // Reason::cancelled.
  //
  // Errors   std::bad_alloc, and some requests are then left; std::invalid_argument within a step
  std::span<Event> end_all(const std::exception_ptr& error = {}) {
    expects(!stepping_, kWho, ": end_all() within a step");
    events_.begin();
    const Reason reason = error ? Reason::failed : Reason::cancelled;
    admission_.drop_if([&](Job& job) { return end(job, reason, error); });
    return events_.take();
  }

  bool idle() const noexcept { return running() == 0 && waiting() == 0; }
  Index running() const noexcept { return admission_.running_count(); }
  Index waiting() const noexcept { return admission_.waiting_count(); }
  const SchedulerStatistics& statistics() const noexcept { return ledger_.totals(); }

 private:
  friend class Service<K, V>;
  using Job = detail::Job<K, V>;

  static constexpr const char* kWho = "decoding::Scheduler";

  // Sets a flag for its lifetime.
  class Stepping {
   public:
    explicit Stepping(bool& flag) noexcept : flag_(flag) { flag_ = true; }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;
    ~Stepping() { flag_ = false; }

   private:
    bool& flag_;
  };

  static Index max_running(const model::Limits& limits) noexcept {
    return std::min({limits.rows, limits.logit_rows, limits.sequences});
  }

  // Adds a request that passed check(); its times count from `since`.
  RequestId enter(Request&& request, const Stopwatch& since) {
    const RequestId id = last_ + 1;
    const std::int64_t waits_since = count_ - request.priority * options_.ageing_steps;
    admission_.enter(waits_since, id, std::move(request), steps_.decoder.config().vocabulary,
                     detail::room(steps_.decoder), pool_, since);
    ledger_.submitted();
    return last_ = id;
  }

  void end_interrupted() {
    admission_.drop_if([&](Job& job) {
      const auto why = job.cancelled ? std::optional(Reason::cancelled) : job.text().interruption();
      return why && end(job, *why);
    });
  }

  // Adds the event of a request's end and returns true: the request is then to be dropped.
  // Allocates nothing if there is room for an event.
  bool end(Job& job, Reason reason, std::exception_ptr error = {}) {
    events_.make_room(1);
    if (!error) admission_.cache_prefix(job);
    job.outcome.generation = job.sequence.finish(reason);
    job.outcome.error = std::move(error);
    ledger_.ended(reason);
    events_.add({job.id, std::move(job.fresh), std::move(job.outcome)});
    return true;
  }

  // Plans a row for each request that decodes, and the other rows for prompts, in order.
  void plan_rows() {
    Index rows = steps_.workspace.limits().rows;
    bool decoding = false;
    admission_.visit_running([&](Job& job) {
      job.sequence.plan(job.sequence.lack() == 1 ? 1 : 0);
      rows -= job.sequence.rows();
      decoding = decoding || job.sequence.rows() == 1;
    });
    if (decoding) rows = std::min(rows, options_.prefill_token_budget);
    admission_.visit_running([&](Job& job) {
      if (job.sequence.rows() == 1) return;
      job.sequence.plan(std::min(job.sequence.lack(), rows));
      rows -= job.sequence.rows();
    });
  }

  // Has drafts proposed for the rows and sequences that are left.
  void propose_drafts() {
    const model::Limits& limits = steps_.workspace.limits();
    Index rows = limits.rows, logits = limits.logit_rows, sequences = limits.sequences - running();
    admission_.visit_running([&](Job& job) {
      rows -= job.sequence.rows();
      logits -= job.sequence.logit_rows();
    });
    admission_.drop_running_if([&](Job& job) {
      const Index left = std::min(rows, logits);
      const Index most =
          std::min(left, steps_.decoder.positions() - std::ssize(job.text().tokens()));
      job.fresh.reserve(static_cast<std::size_t>(std::max<Index>(0, most)) + 1);
      try {
        if (job.drafter) {
          job.sequence.propose(job.drafter, {most, left, sequences}, steps_.decoder.config(), kWho);
        }
      } catch (...) {
        return end(job, Reason::failed, std::current_exception());
      }
      const Index taken = job.sequence.planned_rows() - job.sequence.rows();
      rows -= taken;
      logits -= taken;
      sequences -= std::max<Index>(0, job.sequence.branches() - 1);
      return false;
    });
  }

  void secure_pages() {
    if (const Job* const stuck = admission_.secure()) {
      admission_.drop_running_if(
          [&](Job& job) { return &job == stuck && end(job, Reason::cache_full); });
    }
  }

  // Runs the planned rows; false if there are none.
  bool run() {
    steps_.batch.clear();
    admission_.visit_running([&](Job& job) { job.sequence.fill(steps_.batch); });
    if (steps_.batch.rows() == 0) return false;
    const Stopwatch watch;
    steps_.run();
    ledger_.stepped(steps_.batch.rows(), watch.seconds());
    return true;
  }

  void accept() {
    Index row = 0;
    admission_.drop_running_if([&](Job& job) {
      job.outcome.computed_tokens += job.sequence.planned_rows();
      const Index logits = job.sequence.logit_rows();
      return logits > 0 && accept(job, std::exchange(row, row + logits));
    });
  }

  // Takes the tokens of a request, whose rows of logits begin with row `first`; true if it has
  // ended.
  bool accept(Job& job, Index first) {
    const bool prompt = job.text().generated() == 0;
    std::optional<Reason> ended;
    std::exception_ptr error;
    ledger_.count_tokens(job, [&] {
      try {
        ended = job.sequence.accept(steps_.workspace, first, [&](Token token) {
          job.fresh.push_back(token);
          return !job.sink || job.sink(token);
        });
      } catch (...) {
        ended = Reason::failed;
        error = std::current_exception();
      }
    });
    if (ended) return end(job, *ended, std::move(error));
    if (prompt) admission_.cache_prefix(job);
    events_.add({job.id, std::exchange(job.fresh, {}), {}});
    return false;
  }

  detail::Steps<Store> steps_;
  kv::PagePool<K, V>& pool_;
  SchedulerOptions options_;
  detail::EventList events_;
  bool stepping_ = false;
  std::int64_t count_ = 0;  // of steps
  RequestId last_ = 0;
  detail::Ledger ledger_;
  detail::Admission<K, V> admission_;
};

}  // namespace decant::inline v0::decoding
