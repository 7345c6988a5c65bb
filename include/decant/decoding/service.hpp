// decant/decoding/service.hpp - a scheduler for many threads: any of them submits, one runs steps.
//
// The service's thread runs steps while there is something to do and sleeps while there is nothing.
// Callers share an inbox and the stream of each request with it; no lock is held during a step.
//
// Tested by   tests/decoding/{service,stream,scheduler_fault}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stream.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

// A service has as many waiting requests as it takes. Nothing was changed.
class QueueFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ServiceOptions {
  // Requests that wait, preempted ones among them, before another one is refused.
  Index max_waiting = std::numeric_limits<Index>::max();
};

// What a monitor asks for, as of the last step whose events were delivered.
struct ServiceMetrics {
  SchedulerStatistics totals;
  Index running = 0;
  Index waiting = 0;
};

// Borrows a scheduler, which must not be used otherwise while the service exists. Its destructor
// cancels the requests that have not ended; streams may outlive it.
//
// Functions of requests are called in the service's thread. When a step fails eight times in a row
// (no memory, an executor that throws), all requests end with that error. Times of a request, its
// time in the queue among them, count from submit().
//
// Errors   std::system_error from the constructor if no thread can be started
// Threads  any; the destructor not in the service's own
class Service {
 public:
  explicit Service(Scheduler& scheduler, const ServiceOptions& options = {})
      : scheduler_(scheduler),
        options_(options),
        worker_([this](std::stop_token stop) { work(stop); }) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() = default;  // joins the worker first, which ends the remaining requests

  // Errors   as Scheduler::submit(), QueueFull; std::invalid_argument if options.cancel is set,
  //          since the stream sets it
  [[nodiscard]] Stream submit(Request request) {
    expects(!request.options.cancel.stop_possible(),
            "decoding::Service: options.cancel is the stream's to set");
    auto mailbox = std::make_shared<detail::Mailbox>();
    request.options.cancel = mailbox->cancel.get_token();
    const RequestId id = post(std::move(request), mailbox);
    return {std::move(mailbox), id};
  }

  // Without a stream: request.sink gets the tokens, on_end() the outcome, both in the service's
  // thread, and request.options.cancel may be set. on_end() must not throw. Returns the request's
  // number.
  //
  // Errors   as Scheduler::submit(), QueueFull; std::invalid_argument without on_end
  RequestId submit(Request request, std::function<void(const Outcome&)> on_end) {
    expects(on_end != nullptr, "decoding::Service: on_end is empty");
    return post(std::move(request), std::make_shared<detail::Mailbox>(std::move(on_end)));
  }

  // Runs f() in the service's thread between two steps, where scheduler, pool and prefix tree stand
  // still: to save a prefix cache, or to look at one. f() must not run steps, and the service's
  // thread must not wait for the result.
  //
  // Errors   std::bad_alloc; what f() throws comes with the future
  template <class F>
  [[nodiscard]] std::future<std::invoke_result_t<F&>> run(F f) {
    const auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<F&>()>>(std::move(f));
    auto result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back([task] { (*task)(); });
    }
    arrived_.notify_one();
    return result;
  }

  ServiceMetrics metrics() const {
    const std::lock_guard lock(mutex_);
    ServiceMetrics metrics = metrics_;
    metrics.waiting += std::ssize(inbox_);
    return metrics;
  }

 private:
  static constexpr int kTries = 8;

  struct Letter {
    Request request;
    std::shared_ptr<detail::Mailbox> mailbox;
    Stopwatch since;  // since it was submitted
  };

  RequestId post(Request&& request, const std::shared_ptr<detail::Mailbox>& mailbox) {
    scheduler_.check(request);
    RequestId id = 0;
    {
      const std::lock_guard lock(mutex_);
      const Index waiting = metrics_.waiting + std::ssize(inbox_);
      expects<QueueFull>(waiting < options_.max_waiting, "decoding::Service: ", waiting,
                         " requests are waiting, of at most ", options_.max_waiting);
      inbox_.push_back({std::move(request), mailbox, {}});
      id = ++last_;
    }
    arrived_.notify_one();
    return id;
  }

  void work(const std::stop_token& stop) noexcept {
    for (int failures = 0; wait_for_work(stop);) {
      take_in();
      try {
        deliver(scheduler_.step());
        failures = 0;
      } catch (...) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (++failures < kTries) continue;
        end_all(std::current_exception());
        failures = 0;
      }
    }
    take_in();
    end_all({});
  }

  // False once the service is destroyed.
  bool wait_for_work(const std::stop_token& stop) noexcept {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, stop,
                  [&] { return !inbox_.empty() || !tasks_.empty() || !scheduler_.idle(); });
    return !stop.stop_requested();
  }

  // Runs the tasks, and hands the requests of the inbox to the scheduler.
  void take_in() noexcept {
    std::vector<Letter> letters;
    std::vector<std::function<void()>> tasks;
    {
      const std::lock_guard lock(mutex_);
      letters.swap(inbox_);
      tasks.swap(tasks_);
      metrics_.waiting += std::ssize(letters);  // until the next step has counted them
    }
    for (const auto& task : tasks) task();
    for (Letter& letter : letters) {
      RequestId id = 0;
      try {
        id = scheduler_.submit(std::move(letter.request), letter.since);
        mailboxes_.emplace(id, letter.mailbox);
      } catch (...) {
        if (id != 0) scheduler_.cancel(id);
        letter.mailbox->end(outcome_of(std::current_exception()));
      }
    }
  }

  // Updates the statistics first, so that they include every request whose end is known.
  void deliver(std::span<Event> events) noexcept {
    {
      const std::lock_guard lock(mutex_);
      metrics_ = {scheduler_.statistics(), scheduler_.running(), scheduler_.waiting()};
    }
    for (Event& event : events) {
      const auto at = mailboxes_.find(event.request);
      if (at == mailboxes_.end()) continue;
      detail::Mailbox& mailbox = *at->second;
      try {
        mailbox.deliver(event.tokens);
      } catch (const std::bad_alloc&) {
        scheduler_.cancel(event.request);
        event.outcome = outcome_of(std::current_exception());
      }
      if (!event.outcome) continue;
      mailbox.end(std::move(*event.outcome));
      mailboxes_.erase(at);
    }
  }

  // Ends all requests, with their tokens so far or, if there is no memory for that, with
  // std::bad_alloc alone.
  void end_all(const std::exception_ptr& error) noexcept {
    try {
      deliver(scheduler_.end_all(error));
    } catch (const std::bad_alloc&) {
      for (const auto& [id, mailbox] : mailboxes_) {
        scheduler_.cancel(id);
        mailbox->end(outcome_of(std::current_exception()));
      }
      mailboxes_.clear();
    }
  }

  static Outcome outcome_of(std::exception_ptr error) noexcept {
    Outcome outcome;
    outcome.generation.reason = Reason::failed;
    outcome.error = std::move(error);
    return outcome;
  }

  Scheduler& scheduler_;
  ServiceOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::vector<Letter> inbox_;
  std::vector<std::function<void()>> tasks_;
  RequestId last_ = 0;
  std::unordered_map<RequestId, std::shared_ptr<detail::Mailbox>> mailboxes_;  // the worker's own
  ServiceMetrics metrics_;
  std::jthread worker_;  // last, so that it ends before what it uses
};

}  // namespace decant::inline v0::decoding
