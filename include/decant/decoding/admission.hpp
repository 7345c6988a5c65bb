// decant/decoding/admission.hpp - which requests run, and on which pages.
//
// Requests have one order, in which the first ones run. A step of priority is worth some steps of
// waiting, so that the order of two requests never changes and nobody waits for ever. Whoever takes
// pages or a place takes those of the last that runs, never of one before it.
//
// Depends on  decoding/{generation,job,request}.hpp, kv/{page_pool,paged,prefix_tree}.hpp
// Source      Kwon et al. 2023, arXiv:2309.06180 (preemption by recomputing)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/job.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <string_view>
#include <utility>

namespace decant::inline v0::decoding {

namespace detail {

// Errors   admit() and secure(): std::bad_alloc; no request has lost anything then
template <codec::Codec K, codec::Codec V>
class Admission {
 public:
  using Store = kv::Paged<K, V>;
  using Place = std::pair<std::int64_t, RequestId>;  // since which step it waits, and which it is
  using Jobs = std::map<Place, Job<K, V>>;
  using Iterator = typename Jobs::iterator;

  static Iterator find(Jobs& jobs, RequestId id) noexcept {
    return std::ranges::find_if(jobs, [&](const auto& job) { return job.second.id == id; });
  }

  Admission(kv::PagePool<K, V>& pool, kv::PrefixTree<K, V>* tree, Index pages, Index places,
            SchedulerStatistics& statistics)
      : pool_(pool), tree_(tree), pages_(pages), places_(places), statistics_(statistics) {}

  Jobs& running() noexcept { return running_; }
  Jobs& waiting() noexcept { return waiting_; }
  const Jobs& running() const noexcept { return running_; }
  const Jobs& waiting() const noexcept { return waiting_; }

  // Refuses what could never run: what takes more pages than there are; to recompute, and guesses
  // that are judged by rejection, whose number, and so the tokens, would depend on company.
  //
  // Errors   std::invalid_argument, CacheFull
  void check(const Request& request, Index positions, std::string_view who) const {
    const GenerateOptions& options = request.options;
    expects(!options.recompute, who, ": recompute is for generate() alone");
    expects(options.verification == Verification::agreement, who,
            ": verification by rejection is for generate() alone");
    const Index prompt = std::ssize(request.prompt);
    expects(prompt <= positions, who, ": a prompt of ", prompt, " tokens for a model of ",
            positions, " positions");
    const Index new_tokens = std::max<Index>(0, options.max_new_tokens - 1);  // which are fed
    const Index pages =
        ceil_div(prompt + std::min(positions - prompt, new_tokens), pool_.page_tokens());
    expects<CacheFull>(pages <= pages_, who, ": a prompt of ", prompt, " tokens and ",
                       options.max_new_tokens, " new ones take ", pages, " pages, there are ",
                       pages_);
  }

  // Keeps what a store holds for others that begin like it. Not to find memory for that is no
  // failure.
  void keep(const Job<K, V>& job) noexcept {
    if (tree_ == nullptr || job.store.end() == 0) return;
    try {
      const auto held = job.text.sequence().first(static_cast<std::size_t>(job.store.end()));
      tree_->insert(job.cache_namespace, held, job.store);
    } catch (const std::bad_alloc&) {
    }
  }

  void preempt(Iterator at) noexcept {
    Job<K, V>& job = at->second;
    keep(job);
    job.store = Store(pool_);
    job.outcome.preemptions += 1;
    statistics_.preemptions += 1;
    waiting_.insert(running_.extract(at));
  }

  // Lets the first of those that wait run, as many as there are places and pages for; but whoever
  // begins like one whose prompt is being computed is passed over, until that can be shared.
  void admit() {
    Index passed = 0;
    for (auto at = waiting_.begin(); at != waiting_.end() && passed < places_;) {
      const auto next = std::next(at);
      if (std::ssize(running_) == places_ && !yields_to(at->first)) return;
      Job<K, V>& job = at->second;
      if (tree_ != nullptr) job.store = tree_->find(job.cache_namespace, job.text.sequence());
      if (will_be_kept(job)) {
        job.store = Store(pool_);
        passed += 1;
      } else {
        if (!find_pages(at->first, job)) return;
        start(at);
      }
      at = next;
    }
  }

  // Takes the pages for the rows of everybody, in order; where they run out, the last ones wait
  // again. Gives the one that lacks pages though it runs alone, because others than requests hold
  // them, or the end. Drafts have what pages are free then.
  Iterator secure() {
    for (auto at = running_.begin(); at != running_.end(); ++at) {
      Job<K, V>& job = at->second;
      const Index pages = job.store.pages_for(job.rows);
      while (!has_room(pages) && std::next(at) != running_.end())
        preempt(std::prev(running_.end()));
      if (has_room(pages)) {
        job.store.reserve(job.rows);
        continue;
      }
      // What lacks pages though it has all that are in use lacks one for a copy, and does without.
      const bool has_all = pool_.used_pages() == std::ssize(job.store.pages());
      if (std::ssize(running_) == 1 && (!has_all || pages <= left())) return at;
      preempt(at);
      break;
    }
    for (auto& [place, job] : running_) {
      const Index pages = job.store.pages_for(job.fed());
      if (pages > std::min(pool_.free_pages(), left())) job.drafts.clear();
      job.store.reserve(job.fed());
    }
    return running_.end();
  }

 private:
  // Whether the last that runs comes behind `place`.
  bool yields_to(const Place& place) const noexcept {
    return !running_.empty() && place < std::prev(running_.end())->first;
  }

  // Whether one that runs computes more whole pages of what a sequence begins with than it has.
  bool will_be_kept(const Job<K, V>& job) const {
    if (tree_ == nullptr) return false;
    const auto sequence = job.text.sequence();
    return std::ranges::any_of(running_, [&](const auto& entry) {
      const Job<K, V>& other = entry.second;
      if (other.text.generated() > 0 || other.cache_namespace != job.cache_namespace) return false;
      const Index common =
          std::ranges::mismatch(sequence, other.text.sequence()).in1 - sequence.begin();
      return std::min(common, std::ssize(sequence) - 1) - job.store.end() >= pool_.page_tokens();
    });
  }

  // Pages that requests may still take.
  Index left() const noexcept { return pages_ - pool_.used_pages(); }

  // Finds a request a place and pages beside those it shares; those of others behind it if it needs
  // them and they suffice. Alone it has what room there is. Says whether it may run, and where it
  // may not, it holds nothing.
  bool find_pages(const Place& place, Job<K, V>& job) {
    const auto behind = running_.upper_bound(place);
    Index given = 0;
    for (auto other = behind; other != running_.end(); ++other) {
      given += std::ssize(other->second.store.pages());
    }
    const bool fits = wanted(job, running_.begin(), behind) <= left() + given;
    while (fits && yields_to(place) &&
           (std::ssize(running_) == places_ ||
            wanted(job, running_.begin(), running_.end()) > left())) {
      preempt(std::prev(running_.end()));
    }
    if (fits && wanted(job, running_.begin(), running_.end()) <= left()) return true;
    job.store = Store(pool_);
    return running_.empty();
  }

  // Pages that a request takes for its sequence so far, and some of those that run for what they
  // lack and one more each.
  Index wanted(const Job<K, V>& job, Iterator first, Iterator last) const {
    Index pages = job.store.pages_for(job.lack());
    for (; first != last; ++first) {
      pages += first->second.store.pages_for(first->second.lack()) + 1;
    }
    return pages;
  }

  bool has_room(Index pages) {
    if (pages == 0) return true;
    if (pages > left()) return false;
    return tree_ == nullptr ? pages <= pool_.free_pages() : tree_->make_room(pages);
  }

  void start(Iterator at) {
    Job<K, V>& job = at->second;
    if (!std::exchange(job.ran, true)) {
      Statistics& statistics = job.text.statistics();
      if (tree_ != nullptr) tree_->count(statistics.prompt_tokens, job.store.end());
      statistics.cached_tokens = job.store.end();
      job.outcome.queue_seconds = job.text.seconds();
      statistics_.ran += 1;
      statistics_.prompt_tokens += statistics.prompt_tokens;
      statistics_.cached_tokens += statistics.cached_tokens;
      statistics_.queue_seconds += job.outcome.queue_seconds;
    }
    running_.insert(waiting_.extract(at));
  }

  kv::PagePool<K, V>& pool_;
  kv::PrefixTree<K, V>* tree_;
  Index pages_;   // in use at most
  Index places_;  // that run at most
  SchedulerStatistics& statistics_;
  Jobs running_, waiting_;  // the first of them first
};

}  // namespace detail

}  // namespace decant::inline v0::decoding
