// decant/decoding/detail/paged_engine.hpp - the engine of a scheduler, over pages of one format.
//
// Tested by   tests/decoding/scheduler{,_pages,_end,_fault}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/decoding/detail/admission.hpp>
#include <decant/decoding/detail/engine.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/request.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace decant::inline DECANT_ABI::decoding::detail {

template <codec::Codec K, codec::Codec V>
class PagedEngine final : public Engine {
 public:
  using Store = kv::Paged<K, V>;

  PagedEngine(const model::Decoder& decoder, model::Workspace& workspace, kv::PagePool<K, V>& pool,
              const SchedulerOptions& options, kv::PrefixTree<K, V>* tree)
      : steps_{decoder, workspace},
        pool_(pool),
        options_(options),
        admission_(pool, tree, std::min(options.max_pages, pool.total_pages()),
                   max_running(options, workspace.limits()), ledger_) {
    expects(tree == nullptr || &tree->pool() == &pool, kWho, ": a tree of another pool");
    expects(workspace.config() == decoder.config(), kWho,
            ": the workspace was made for another configuration");
    model::check(decoder.config(), Store(pool), kWho);
  }

  void check(const Request& request) const override {
    detail::check(request.options, request.prompt, steps_.decoder.config(), kWho);
    admission_.check(request, detail::room(steps_.decoder), kWho);
  }

  RequestId submit(Request&& request, const Stopwatch& since) override {
    check(request);
    const RequestId id = last_ + 1;
    const std::int64_t waits_since = count_ - request.priority * options_.ageing_steps;
    admission_.enter(waits_since, id, std::move(request), steps_.decoder.config().vocabulary,
                     detail::room(steps_.decoder), pool_, since);
    ledger_.submitted();
    return last_ = id;
  }

  bool cancel(RequestId id) noexcept override {
    Job* const job = admission_.find(id);
    if (job != nullptr) job->cancelled = true;
    return job != nullptr;
  }

  bool preempt(RequestId id) noexcept override { return !stepping_ && admission_.preempt(id); }

  std::span<Event> step() override {
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

  std::span<Event> end_all(const std::exception_ptr& error) override {
    expects(!stepping_, kWho, ": end_all() within a step");
    events_.begin();
    const Reason reason = error ? Reason::failed : Reason::cancelled;
    admission_.drop_if([&](Job& job) { return end(job, reason, error); });
    return events_.take();
  }

  Index running() const noexcept override { return admission_.running_count(); }
  Index waiting() const noexcept override { return admission_.waiting_count(); }
  const SchedulerStatistics& statistics() const noexcept override { return ledger_.totals(); }

 private:
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

  // A default workspace has room for one request; whoever wants just that says so.
  static Index max_running(const SchedulerOptions& options, const model::Limits& limits) {
    decoding::check(options);
    const Index room = std::min({limits.rows, limits.logit_rows, limits.sequences});
    expects(room >= options.max_running.value_or(2), kWho, ": a workspace of ", limits.rows,
            " rows, ", limits.logit_rows, " of logits and ", limits.sequences, " sequences, for ",
            options.max_running.value_or(2),
            " or more running requests; decoding::scheduler_limits() gives its limits");
    return options.max_running.value_or(room);
  }

  void end_interrupted() {
    admission_.drop_if([&](Job& job) {
      const auto why = job.cancelled ? std::optional(Reason::cancelled) : job.text().interruption();
      return why && end(job, *why);
    });
  }

  // Adds the event of a request's end and returns true: the request is then to be dropped. Throws
  // nothing if there is room for an event; what release() meets becomes the request's error.
  bool end(Job& job, Reason reason, std::exception_ptr error = {}) {
    events_.make_room(1);
    if (!error) reason = release(job, reason, error);
    if (!error) admission_.cache_prefix(job);
    job.outcome.generation = job.sequence.finish(reason);
    job.outcome.error = std::move(error);
    ledger_.ended(reason);
    events_.add({job.id, std::move(job.fresh), std::move(job.outcome)});
    return true;
  }

  // Gives the tokens that were held back to the event and the sink of a request that ends. Returns
  // the reason of its end; an exception of the sink or of the text goes to `error`.
  Reason release(Job& job, Reason reason, std::exception_ptr& error) {
    const Index before = std::ssize(job.fresh);
    try {
      job.fresh.reserve(static_cast<std::size_t>(before + job.text().held_back()));
      reason = job.sequence.end(reason, [&](NewToken& token) { return show(job, token); });
    } catch (...) {
      reason = Reason::failed;
      error = std::current_exception();
    }
    ledger_.released(std::ssize(job.fresh) - before);
    return reason;
  }

  // Precondition: job.fresh has capacity for the token. Were there no memory for it here, the
  // answer would have a token that no event has.
  static bool show(Job& job, NewToken& token) {
    job.fresh.push_back(std::move(token));
    return !job.sink || job.sink(job.fresh.back());
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
    Index left = std::min(rows, logits);
    admission_.drop_running_if([&](Job& job) {
      if (!propose_drafts(job, left, sequences)) return true;
      left -= job.sequence.planned_rows() - job.sequence.rows();
      sequences -= std::max<Index>(0, job.sequence.branches() - 1);
      return false;
    });
  }

  // Has drafts of one request proposed, for so many rows and sequences; false if its drafter threw,
  // which ends it.
  bool propose_drafts(Job& job, Index rows, Index sequences) {
    const Index positions = steps_.decoder.positions() - std::ssize(job.text().tokens());
    const Index most = std::min(rows, positions);
    const Index held_back = job.text().held_back();
    job.fresh.reserve(static_cast<std::size_t>(held_back + std::max<Index>(0, most) + 1));
    try {
      if (job.drafter) {
        job.sequence.propose(job.drafter, {most, rows, sequences}, steps_.decoder.config(), kWho);
      }
      return true;
    } catch (...) {
      return !end(job, Reason::failed, std::current_exception());
    }
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
        ended = job.sequence.accept(steps_.workspace, first,
                                    [&](NewToken& token) { return show(job, token); });
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

  Steps<Store> steps_;
  kv::PagePool<K, V>& pool_;
  SchedulerOptions options_;
  EventList events_;
  bool stepping_ = false;
  std::int64_t count_ = 0;  // of steps
  RequestId last_ = 0;
  Ledger ledger_;
  Admission<K, V> admission_;
};

template <codec::Codec K, codec::Codec V>
std::unique_ptr<Engine> PagedRuns<kv::Paged<K, V>>::engine(const model::Decoder& decoder,
                                                           model::Workspace& workspace,
                                                           kv::PagePool<K, V>& pool,
                                                           const SchedulerOptions& options,
                                                           kv::PrefixTree<K, V>* tree) {
  return std::make_unique<PagedEngine<K, V>>(decoder, workspace, pool, options, tree);
}

}  // namespace decant::inline DECANT_ABI::decoding::detail
