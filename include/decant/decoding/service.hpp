// decant/decoding/service.hpp - a scheduler for many threads: any of them submits, one runs steps.
//
// The service's thread runs steps while there is something to do and sleeps while there is nothing.
// Callers share an inbox and the stream of each request with it; no lock is held during a step.
//
// Tested by   tests/decoding/{service,scheduler_fault}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/scheduler.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// What a service and the caller of a request share.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Token> tokens;
  std::optional<Outcome> outcome;
  std::stop_source cancel;

  // Errors   std::bad_alloc; nothing is delivered then
  void deliver(const std::vector<Token>& fresh) {
    const std::lock_guard lock(mutex);
    tokens.insert(tokens.end(), fresh.begin(), fresh.end());
    changed.notify_all();
  }
  void end(Outcome&& with) noexcept {
    const std::lock_guard lock(mutex);
    outcome = std::move(with);
    changed.notify_all();
  }
};

}  // namespace detail

// The answer to a request of a service, as it grows. Its destructor cancels the request. Move-only;
// one that was moved from can only be assigned to or destroyed.
//
// Errors   wait(): std::bad_alloc
// Threads  next() and wait() for one thread at a time, cancel() for any
class Stream {
 public:
  explicit Stream(std::shared_ptr<detail::Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    std::swap(mailbox_, other.mailbox_);
    return *this;
  }
  ~Stream() { cancel(); }

  // Waits for the next token; std::nullopt after the last one.
  std::optional<Token> next() {
    std::unique_lock lock(mailbox_->mutex);
    mailbox_->changed.wait(lock, [&] { return !mailbox_->tokens.empty() || mailbox_->outcome; });
    if (mailbox_->tokens.empty()) return std::nullopt;
    const Token token = mailbox_->tokens.front();
    mailbox_->tokens.pop_front();
    return token;
  }

  // Waits for the end of the request.
  Outcome wait() {
    std::unique_lock lock(mailbox_->mutex);
    mailbox_->changed.wait(lock, [&] { return mailbox_->outcome.has_value(); });
    return *mailbox_->outcome;
  }

  // Ends the request before the next step.
  void cancel() noexcept {
    if (mailbox_) mailbox_->cancel.request_stop();
  }

 private:
  std::shared_ptr<detail::Mailbox> mailbox_;
};

// Borrows a scheduler, which must not be used otherwise while the service exists. Its destructor
// cancels the requests that have not ended; streams may outlive it.
//
// Functions of requests are called in the service's thread. When a step fails eight times in a row
// (no memory, an executor that throws), all requests end with that error. Times of a request, its
// time in the queue among them, count from submit().
//
// Errors   std::system_error from the constructor if no thread can be started
// Threads  any
class Service {
 public:
  explicit Service(Scheduler& scheduler)
      : scheduler_(scheduler), worker_([this](std::stop_token stop) { work(stop); }) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() = default;  // joins the worker first, which ends the remaining requests

  // Errors   as Scheduler::submit(); std::invalid_argument if options.cancel is set, since the
  //          stream sets it
  Stream submit(Request request) {
    expects(!request.options.cancel.stop_possible(),
            "decoding::Service: options.cancel is the stream's to set");
    scheduler_.check(request);
    auto mailbox = std::make_shared<detail::Mailbox>();
    request.options.cancel = mailbox->cancel.get_token();
    {
      const std::lock_guard lock(mutex_);
      inbox_.push_back({std::move(request), mailbox, {}});
    }
    arrived_.notify_one();
    return Stream(std::move(mailbox));
  }

  // As of the last step whose events were delivered.
  SchedulerStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  static constexpr int kTries = 8;

  struct Letter {
    Request request;
    std::shared_ptr<detail::Mailbox> mailbox;
    Stopwatch since;  // since it was submitted
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
    arrived_.wait(lock, stop, [&] { return !inbox_.empty() || !scheduler_.idle(); });
    return !stop.stop_requested();
  }

  // Hands the requests of the inbox to the scheduler.
  void take_in() noexcept {
    std::vector<Letter> letters;
    {
      const std::lock_guard lock(mutex_);
      letters.swap(inbox_);
    }
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
      statistics_ = scheduler_.statistics();
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
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::vector<Letter> inbox_;
  std::unordered_map<RequestId, std::shared_ptr<detail::Mailbox>> mailboxes_;  // the worker's own
  SchedulerStatistics statistics_;
  std::jthread worker_;  // last, so that it ends before what it uses
};

}  // namespace decant::inline v0::decoding
