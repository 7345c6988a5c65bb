// decant/decoding/detail/job.hpp - a request inside a scheduler, the statistics of all requests,
// and the events of a step.
//
// Tested by   tests/decoding/scheduler{,_pages,_end,_fault}_test.cpp
#pragma once

#include <decant/decoding/detail/sequence.hpp>
#include <decant/decoding/request.hpp>
#include <decant/kv/paged.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

// A request that waits or runs.
template <codec::Codec K, codec::Codec V>
struct Job {
  using Store = kv::Paged<K, V>;

  Job(RequestId name, Request&& request, Index vocabulary, const Room& room,
      kv::PagePool<K, V>& pool, const Stopwatch& since)
      : id(name),
        cache_namespace(namespace_of(request)),
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
  Sequence<Store> sequence;     // whose store is empty while it waits
  std::vector<NewToken> fresh;  // tokens of this step
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
  // Calls accept(), which takes the tokens of a job, and counts them.
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
  // Counts tokens that were held back until the end of a text.
  void released(Index tokens) noexcept { totals_.generated_tokens += tokens; }
  void ended(Reason reason) noexcept {
    totals_.ended += 1;
    totals_.failed += reason == Reason::failed;
  }

 private:
  SchedulerStatistics totals_;
};

// The events of a step. They stay until a step has returned them, since a step that throws may have
// ended requests before. Their memory is reserved beforehand, so that no event is lost for want of
// it.
//
// Threads  one owner
class EventList {
 public:
  // Drops the events that were returned.
  void begin() noexcept {
    if (std::exchange(returned_, false)) events_.clear();
  }

  // Reserves memory for `count` more events.
  //
  // Errors   std::bad_alloc
  void make_room(Index count) {
    const std::size_t size = events_.size() + static_cast<std::size_t>(count);
    if (size > events_.capacity()) events_.reserve(2 * size);
  }

  // Precondition: there is room.
  void add(Event&& event) noexcept { events_.push_back(std::move(event)); }

  // Everything since begin().
  std::span<Event> take() noexcept {
    returned_ = true;
    return events_;
  }

 private:
  std::vector<Event> events_;
  bool returned_ = false;
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
