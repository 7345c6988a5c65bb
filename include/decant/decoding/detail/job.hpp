// decant/decoding/detail/job.hpp - a request of a scheduler, and the counts of them all.
//
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/sequence.hpp>
#include <decant/decoding/detail/steps.hpp>
#include <decant/decoding/detail/text.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix.hpp>

#include <utility>
#include <vector>

namespace decant::inline v0::decoding::detail {

// A request that waits or runs.
template <codec::Codec K, codec::Codec V>
struct Job {
  using Store = kv::Paged<K, V>;

  Job(RequestId name, Request&& request, Index vocabulary, const Room& room,
      kv::PagePool<K, V>& pool, const Stopwatch& since)
      : id(name),
        cache_namespace(request.cache_namespace),
        drafter(std::move(request.drafter)),
        sink(std::move(request.sink)),
        sequence(Text(request.prompt, std::move(request.options), vocabulary, since), Store(pool),
                 room) {}

  Text& text() noexcept { return sequence.text(); }
  const Text& text() const noexcept { return sequence.text(); }

  RequestId id;
  kv::CacheNamespace cache_namespace;
  decltype(Request::drafter) drafter;
  decltype(Request::sink) sink;
  Sequence<Store> sequence;  // whose store is empty while it waits
  std::vector<Token> fresh;  // tokens of this step
  bool cancelled = false;
  bool ran = false;
  Outcome outcome;
};

// The statistics of a scheduler, and of its requests as far as a Text does not count them.
class Ledger {
 public:
  const SchedulerStatistics& totals() const noexcept { return totals_; }

  void submitted() noexcept { totals_.submitted += 1; }
  template <class Job>
  void started(Job& job) noexcept {
    Statistics& own = job.text().statistics();
    own.cached_tokens = job.sequence.store().end();
    job.outcome.queue_seconds = job.text().seconds();
    totals_.ran += 1;
    totals_.prompt_tokens += own.prompt_tokens;
    totals_.cached_tokens += own.cached_tokens;
    totals_.queue_seconds += job.outcome.queue_seconds;
  }
  template <class Job>
  void preempted(Job& job) noexcept {
    job.outcome.preemptions += 1;
    totals_.preemptions += 1;
  }
  void stepped(Index rows, double seconds) noexcept {
    totals_.step_seconds += seconds;
    totals_.steps += 1;
    totals_.computed_tokens += rows;
  }
  // Calls accept(), which takes the tokens of a job.
  template <class Job, class F>
  void count_tokens(Job& job, F&& accept) {
    Statistics& own = job.text().statistics();
    const bool prompt = job.text().generated() == 0;
    const double decoded = own.decode_seconds;
    if (prompt) own.prefill_seconds = job.text().seconds() - job.outcome.queue_seconds;
    accept();
    totals_.generated_tokens += std::ssize(job.fresh);
    totals_.decode_seconds += own.decode_seconds - decoded;
    if (prompt && job.text().generated() > 0) {
      totals_.answered += 1;
      totals_.first_token_seconds += own.time_to_first_token;
    }
  }
  void ended(Reason reason) noexcept {
    totals_.ended += 1;
    totals_.failed += reason == Reason::failed;
  }

 private:
  SchedulerStatistics totals_;
};

}  // namespace decant::inline v0::decoding::detail
