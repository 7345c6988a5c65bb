// decant/decoding/detail/admission.hpp - which requests run, and on which pages.
//
// Requests are in one fixed order, and the first of them run. A level of priority counts as a
// number of steps of waiting, so the order of two requests never changes and none waits for ever. A
// request that needs pages takes them from the last running request, never from one ahead of
// itself.
//
// Source      Kwon et al. 2023, arXiv:2309.06180 (preemption by recomputing)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/core/shape.hpp>
#include <decant/decoding/detail/job.hpp>
#include <decant/decoding/detail/steps.hpp>
#include <decant/kv/prefix_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <string_view>
#include <utility>

namespace decant::inline DECANT_ABI::decoding::detail {

// Errors   admit() and secure(): std::bad_alloc; no request has lost a token then
template <codec::Codec K, codec::Codec V>
class Admission {
 public:
  using Job = detail::Job<K, V>;
  using Store = kv::Paged<K, V>;

  Admission(kv::PagePool<K, V>& pool, kv::PrefixTree<K, V>* tree, Index max_pages,
            Index max_running, Ledger& ledger)
      : pool_(pool),
        tree_(tree),
        max_pages_(max_pages),
        max_running_(max_running),
        ledger_(ledger) {}

  // Refuses a request that could never run: one that takes more pages than there are, or has an
  // option of generate() alone: recompute, or verification by rejection, under which the number of
  // drafts, and so the tokens, would depend on the other sequences of the batch.
  //
  // Errors   std::invalid_argument, CacheFull
  void check(const Request& request, const Room& room, std::string_view who) const {
    const GenerateOptions& options = request.options;
    check_cached(options, who);
    expects(options.cached_tokens == 0, who, ": cached_tokens is ", options.cached_tokens,
            "; a scheduler finds them in its prefix cache");
    expects(options.verification == Verification::agreement, who,
            ": verification by rejection is for generate() alone");
    expects(request.cache_namespace.adapter == 0, who, ": cache_namespace.adapter is ",
            request.cache_namespace.adapter, "; a scheduler takes it from options.adapter");
    const Index prompt = std::ssize(request.prompt);
    check_fits(prompt, room, who);
    const Index fed = std::max<Index>(0, options.max_new_tokens - 1);  // all but the last
    const Index pages = ceil_div(prompt + std::min(room.tokens - prompt, fed), pool_.page_tokens());
    expects<CacheFull>(pages <= max_pages_, who, ": a prompt of ", prompt, " tokens and ",
                       options.max_new_tokens, " new ones take ", pages, " pages, there are ",
                       max_pages_);
  }

  // Adds a waiting request, whose waiting counts from step `since`.
  //
  // Errors   std::bad_alloc, and nothing changed then
  template <class... Arguments>
  void enter(std::int64_t since, RequestId id, Arguments&&... arguments) {
    waiting_.try_emplace(Order{since, id}, id, std::forward<Arguments>(arguments)...);
  }

  // Calls visit(job) for each running request, in order.
  template <class F>
  void visit_running(F&& visit) {
    for (auto& [order, job] : running_) visit(job);
  }
  Index running_count() const noexcept { return std::ssize(running_); }
  Index waiting_count() const noexcept { return std::ssize(waiting_); }

  // Null if there is no such request.
  Job* find(RequestId id) noexcept {
    for (Jobs* jobs : {&running_, &waiting_}) {
      if (const auto at = find_in(*jobs, id); at != jobs->end()) return &at->second;
    }
    return nullptr;
  }

  // Drops the requests for which ends(job) returns true.
  template <class F>
  void drop_running_if(F&& ends) {
    drop_if(running_, ends);
  }
  template <class F>
  void drop_if(F&& ends) {
    drop_if(running_, ends);
    drop_if(waiting_, ends);
  }

  // Adds what the request's store holds to the prefix cache. If there is no memory for that,
  // nothing is cached, which is no error.
  void cache_prefix(const Job& job) noexcept {
    const Store& store = job.sequence.store();
    if (tree_ == nullptr || store.end() == 0) return;
    try {
      const auto held = job.text().tokens().first(static_cast<std::size_t>(store.end()));
      tree_->insert(job.cache_namespace, held, store);
    } catch (const std::bad_alloc&) {
    }
  }

  // Preempts a running request: it gives its pages back and waits again. False if no such request
  // runs.
  bool preempt(RequestId id) noexcept {
    const auto at = find_in(running_, id);
    if (at == running_.end()) return false;
    preempt(at);
    return true;
  }

  // Starts the first waiting requests, as many as there are sequences and pages for. A request
  // whose prefix a running one is computing goes on waiting until it can share those pages.
  void admit() {
    Index passed = 0;
    for (auto at = waiting_.begin(); at != waiting_.end() && passed < max_running_;) {
      const auto next = std::next(at);
      if (running_count() == max_running_ && !yields_to(at->first)) return;
      Job& job = at->second;
      if (tree_ != nullptr) {
        job.sequence.set_store(tree_->find(job.cache_namespace, job.text().tokens()));
      }
      if (will_be_cached(job)) {
        job.sequence.set_store(Store(pool_));
        passed += 1;
      } else {
        if (!find_pages(at->first, job)) return;
        start(at);
      }
      at = next;
    }
  }

  // Reserves pages for the planned rows of all running requests, in order; if they run out, the
  // last requests are preempted. Drafts get the pages that are left. Returns the request that lacks
  // pages although it runs alone, since stores outside of the scheduler hold them, or null.
  Job* secure() {
    for (auto at = running_.begin(); at != running_.end(); ++at) {
      if (secure_rows(at)) continue;
      if (running_count() == 1) return &at->second;
      preempt(at);
      break;
    }
    visit_running([&](Job& job) { secure_drafts(job); });
    return nullptr;
  }

 private:
  using Order = std::pair<std::int64_t, RequestId>;  // the step from which it waits, and its id
  using Jobs = std::map<Order, Job>;
  using Iterator = typename Jobs::iterator;

  static Iterator find_in(Jobs& jobs, RequestId id) noexcept {
    return std::ranges::find_if(jobs, [&](const auto& job) { return job.second.id == id; });
  }

  template <class F>
  static void drop_if(Jobs& jobs, F& ends) {
    for (auto at = jobs.begin(); at != jobs.end();) {
      at = ends(at->second) ? jobs.erase(at) : std::next(at);
    }
  }

  void preempt(Iterator at) noexcept {
    Job& job = at->second;
    cache_prefix(job);
    job.sequence.set_store(Store(pool_));
    ledger_.preempted(job);
    waiting_.insert(running_.extract(at));
  }

  // Reserves pages for the planned rows of a request, and preempts requests behind it for them;
  // false if that does not suffice.
  bool secure_rows(Iterator at) {
    Job& job = at->second;
    Store& store = job.sequence.store();
    const Index pages = store.pages_for(job.sequence.rows());
    while (!has_room(pages) && std::next(at) != running_.end()) preempt(std::prev(running_.end()));
    if (!has_room(pages)) return false;
    store.reserve(job.sequence.rows());
    return true;
  }

  void secure_drafts(Job& job) {
    if (job.sequence.branches() == 0) return;
    job.sequence.fork_branches();
    if (job.sequence.pages() > std::min(pool_.free_pages(), left())) job.sequence.drop_drafts();
    job.sequence.reserve();
  }

  // Whether the last running request comes behind `order`.
  bool yields_to(const Order& order) const noexcept {
    return !running_.empty() && order < std::prev(running_.end())->first;
  }

  // Whether a running request is computing whole pages of this one's prefix that its store lacks.
  bool will_be_cached(const Job& job) const {
    if (tree_ == nullptr) return false;
    const auto tokens = job.text().tokens();
    return std::ranges::any_of(running_, [&](const auto& entry) {
      const Job& other = entry.second;
      if (other.text().generated() > 0 || other.cache_namespace != job.cache_namespace) {
        return false;
      }
      const Index common =
          std::ranges::mismatch(tokens, other.text().tokens()).in1 - tokens.begin();
      return std::min(common, std::ssize(tokens) - 1) - job.sequence.store().end() >=
             pool_.page_tokens();
    });
  }

  // Pages that requests may still take.
  Index left() const noexcept { return max_pages_ - pool_.used_pages(); }

  // Whether a request may run: a sequence of the step and the pages that it lacks are free, or
  // become free by preempting requests behind it (none is preempted if that does not suffice). A
  // request that runs alone always may. One that may not gives its pages back.
  bool find_pages(const Order& order, Job& job) {
    const auto behind = running_.upper_bound(order);
    Index given = 0;
    for (auto other = behind; other != running_.end(); ++other) {
      given += std::ssize(other->second.sequence.store().pages());
    }
    const bool fits = wanted(job, running_.begin(), behind) <= left() + given;
    while (fits && yields_to(order) &&
           (running_count() == max_running_ ||
            wanted(job, running_.begin(), running_.end()) > left())) {
      preempt(std::prev(running_.end()));
    }
    if (fits && wanted(job, running_.begin(), running_.end()) <= left()) return true;
    job.sequence.set_store(Store(pool_));
    return running_.empty();
  }

  // Pages that a request takes for its sequence so far, and the running ones in [first, last) for
  // what they lack and one page more each.
  static Index wanted(const Job& job, Iterator first, Iterator last) {
    const auto pages = [](const Job& of) {
      return of.sequence.store().pages_for(of.sequence.lack());
    };
    Index sum = pages(job);
    for (; first != last; ++first) sum += pages(first->second) + 1;
    return sum;
  }

  bool has_room(Index pages) {
    if (pages == 0) return true;
    if (pages > left()) return false;
    return tree_ == nullptr ? pages <= pool_.free_pages() : tree_->make_room(pages);
  }

  void start(Iterator at) {
    Job& job = at->second;
    if (!std::exchange(job.ran, true)) {
      if (tree_ != nullptr) {
        tree_->count(job.text().statistics().prompt_tokens, job.sequence.store().end());
      }
      ledger_.started(job);
    }
    running_.insert(waiting_.extract(at));
  }

  kv::PagePool<K, V>& pool_;
  kv::PrefixTree<K, V>* tree_;
  Index max_pages_;    // in use at once
  Index max_running_;  // requests at once
  Ledger& ledger_;
  Jobs running_, waiting_;
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
