// decant/decoding/detail/admission.hpp - which requests run, and on which pages.
//
// Requests have one order, in which the first ones run. A level of priority is worth some steps of
// waiting, so the order of two requests never changes and no request waits for ever. Pages
// and running sequences are taken from the last request that runs, never from one before the
// request that needs them.
//
// Source      Kwon et al. 2023, arXiv:2309.06180 (preemption by recomputing)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp, tests/law/scheduler_test.cpp
#pragma once

#include <decant/core/shape.hpp>
#include <decant/decoding/detail/job.hpp>
#include <decant/kv/prefix_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <string_view>
#include <utility>

namespace decant::inline v0::decoding::detail {

// Errors   admit() and secure(): std::bad_alloc; no request has lost anything then
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

  // Refuses what could never run: what takes more pages than there are; recomputing; and
  // verification by rejection, where the number of drafts, and so the tokens, would depend on the
  // other sequences of the batch.
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
    expects<CacheFull>(pages <= max_pages_, who, ": a prompt of ", prompt, " tokens and ",
                       options.max_new_tokens, " new ones take ", pages, " pages, there are ",
                       max_pages_);
  }

  // A request that waits; `since`: the step from which its waiting counts.
  //
  // Errors   std::bad_alloc, and nothing changed then
  template <class... Arguments>
  void enter(std::int64_t since, RequestId id, Arguments&&... arguments) {
    waiting_.try_emplace(Order{since, id}, id, std::forward<Arguments>(arguments)...);
  }

  // visit(job) for each that runs, in order.
  template <class F>
  void visit_running(F&& visit) {
    for (auto& [order, job] : running_) visit(job);
  }
  Index running_count() const noexcept { return std::ssize(running_); }
  Index waiting_count() const noexcept { return std::ssize(waiting_); }

  // Null where there is no such request.
  Job* find(RequestId id) noexcept {
    for (Jobs* jobs : {&running_, &waiting_}) {
      if (const auto at = find_in(*jobs, id); at != jobs->end()) return &at->second;
    }
    return nullptr;
  }

  // Drops the requests for which ends(job) says so.
  template <class F>
  void drop_running_if(F&& ends) {
    drop_if(running_, ends);
  }
  template <class F>
  void drop_if(F&& ends) {
    drop_if(running_, ends);
    drop_if(waiting_, ends);
  }

  // Caches what a store holds for other prompts that begin alike. To find no memory for it is no
  // failure.
  void cache_prefix(const Job& job) noexcept {
    const Store& store = job.sequence.store();
    if (tree_ == nullptr || store.end() == 0) return;
    try {
      const auto held = job.text().tokens().first(static_cast<std::size_t>(store.end()));
      tree_->insert(job.cache_namespace, held, store);
    } catch (const std::bad_alloc&) {
    }
  }

  // Takes its pages from a request that runs; false where none has that name.
  bool preempt(RequestId id) noexcept {
    const auto at = find_in(running_, id);
    if (at == running_.end()) return false;
    preempt(at);
    return true;
  }

  // Lets the first of those that wait run, as many as there are sequences and pages for; but a
  // request that begins like one whose prompt is being computed waits until it can share that.
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

  // Takes the pages for the rows of all that run, in order; where they run out, the last ones wait
  // again. Gives the one that lacks pages though it runs alone, because others than requests hold
  // them, or null. Drafts have what pages are free then.
  Job* secure() {
    for (auto at = running_.begin(); at != running_.end(); ++at) {
      Job& job = at->second;
      Store& store = job.sequence.store();
      const Index pages = store.pages_for(job.sequence.rows());
      while (!has_room(pages) && std::next(at) != running_.end()) {
        preempt(std::prev(running_.end()));
      }
      if (has_room(pages)) {
        store.reserve(job.sequence.rows());
        continue;
      }
      // A request that holds all pages in use and yet lacks one, lacks it for a copy: computed
      // again it needs none.
      const bool has_all = pool_.used_pages() == std::ssize(store.pages());
      if (running_count() == 1 && (!has_all || pages <= left())) return &job;
      preempt(at);
      break;
    }
    visit_running([&](Job& job) { secure_drafts(job); });
    return nullptr;
  }

 private:
  using Order = std::pair<std::int64_t, RequestId>;  // since which step it waits, and which it is
  using Jobs = std::map<Order, Job>;                 // the first of them first
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

  void secure_drafts(Job& job) {
    if (job.sequence.branches() == 0) return;
    job.sequence.fork_branches();
    if (job.sequence.pages() > std::min(pool_.free_pages(), left())) job.sequence.drop_drafts();
    job.sequence.reserve();
  }

  // Whether the last that runs comes behind `order`.
  bool yields_to(const Order& order) const noexcept {
    return !running_.empty() && order < std::prev(running_.end())->first;
  }

  // Whether one that runs computes more whole pages of what a sequence begins with than it has.
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

  // Finds a request a sequence of the step, and pages beside those it shares; those of others
  // behind it if it needs them and they suffice. Alone it has what room there is. Says whether it
  // may run; if not, it holds nothing.
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

  // Pages that a request takes for its sequence so far, and some of those that run for what they
  // lack and one more each.
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
  Index max_running_;  // requests
  Ledger& ledger_;
  Jobs running_, waiting_;
};

}  // namespace decant::inline v0::decoding::detail
