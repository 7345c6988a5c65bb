// decant/decoding/detail/service.hpp - the thread of a service, and what callers share with it.
//
// Tested by   tests/decoding/{service,stream,scheduler_fault}_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/mailbox.hpp>
#include <decant/decoding/detail/stream.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/service.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// A thread that runs the steps of a scheduler. Its destructor ends the remaining requests.
class detail::ServiceThread {
 public:
  ServiceThread(Scheduler& scheduler, const ServiceOptions& options)
      : scheduler_(scheduler),
        options_(options),
        worker_([this](std::stop_token stop) { work(stop); }) {}

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

  // Runs f() between two steps, or at once if this is the thread that runs them.
  void run(FunctionRef<void()> f) {
    if (std::this_thread::get_id() == worker_.get_id()) return f();
    Task task{f, {}, {}};
    std::unique_lock lock(mutex_);
    tasks_.push_back(&task);
    arrived_.notify_one();
    task_done_.wait(lock, [&] { return task.done; });
    if (task.error) std::rethrow_exception(task.error);
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

  // A function that a caller waits for.
  struct Task {
    FunctionRef<void()> run;
    std::exception_ptr error;
    bool done = false;
  };

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
    std::vector<Task*> tasks;
    {
      const std::lock_guard lock(mutex_);
      letters.swap(inbox_);
      tasks.swap(tasks_);
      metrics_.waiting += std::ssize(letters);  // until the next step has counted them
    }
    for (Task* task : tasks) perform(*task);
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

  void perform(Task& task) noexcept {
    std::exception_ptr error;
    try {
      task.run();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    task.error = std::move(error);
    task.done = true;
    task_done_.notify_all();
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
  std::vector<Task*> tasks_;  // of callers that wait
  std::condition_variable task_done_;
  RequestId last_ = 0;
  std::unordered_map<RequestId, std::shared_ptr<detail::Mailbox>> mailboxes_;  // the worker's own
  ServiceMetrics metrics_;
  std::jthread worker_;  // last, so that it ends before what it uses
};

DECANT_INLINE Service::Service(Scheduler& scheduler, const ServiceOptions& options)
    : thread_(std::make_unique<detail::ServiceThread>(scheduler, options)) {}
DECANT_INLINE Service::~Service() = default;

DECANT_INLINE Stream Service::submit(Request request) {
  expects(!request.options.cancel.stop_possible(),
          "decoding::Service: options.cancel is the stream's to set");
  auto mailbox = std::make_shared<detail::Mailbox>();
  request.options.cancel = mailbox->cancel.get_token();
  const RequestId id = thread_->post(std::move(request), mailbox);
  return {std::move(mailbox), id};
}

DECANT_INLINE RequestId Service::submit(Request request,
                                        std::function<void(const Outcome&)> on_end) {
  expects(on_end != nullptr, "decoding::Service: on_end is empty");
  return thread_->post(std::move(request), std::make_shared<detail::Mailbox>(std::move(on_end)));
}

DECANT_INLINE ServiceMetrics Service::metrics() const { return thread_->metrics(); }
DECANT_INLINE void Service::run_between_steps(FunctionRef<void()> f) { thread_->run(f); }

}  // namespace decant::inline DECANT_ABI::decoding
