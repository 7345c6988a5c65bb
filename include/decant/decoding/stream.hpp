// decant/decoding/stream.hpp - the answer to a request of a service, as it grows.
//
// A stream is read by waiting, by polling, or by a coroutine:
//
//   while (const auto token = stream.next()) ...             a thread that waits
//   while (const auto token = stream.try_next()) ...         an event loop, now and then
//   while (const auto token = co_await stream) ...           a coroutine, in the service's thread
//
// Tested by   tests/decoding/{service,stream}_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// What a service and the caller of a request share.
class Mailbox {
 public:
  explicit Mailbox(std::function<void(const Outcome&)> on_end = {}) : on_end_(std::move(on_end)) {}

  // Of the service.
  //
  // Errors   deliver(): std::bad_alloc; nothing is delivered then
  void deliver(const std::vector<Token>& fresh) {
    if (on_end_ || fresh.empty()) return;
    change([&] { tokens_.insert(tokens_.end(), fresh.begin(), fresh.end()); });
  }
  void end(Outcome&& with) noexcept {
    if (on_end_) on_end_(with);
    change([&] { outcome_ = std::move(with); });
  }

  // Of the stream.
  std::optional<Token> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready(); });
    return take();
  }
  template <class Duration>
  std::optional<Token> next_for(const Duration& duration) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, duration, [&] { return ready(); });
    return take();
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return tokens_.empty() && outcome_;
  }
  std::optional<Outcome> outcome() {
    const std::lock_guard lock(mutex_);
    return outcome_;
  }
  Outcome wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcome_.has_value(); });
    return *outcome_;
  }
  // False if a token or the end is there already.
  bool suspend(std::coroutine_handle<> coroutine) {
    const std::lock_guard lock(mutex_);
    if (ready()) return false;
    suspended_ = coroutine;
    return true;
  }

  std::stop_source cancel;

 private:
  bool ready() const noexcept { return !tokens_.empty() || outcome_; }
  std::optional<Token> take() {
    if (tokens_.empty()) return std::nullopt;
    const Token token = tokens_.front();
    tokens_.pop_front();
    return token;
  }
  // Changes something and tells who waits; a coroutine goes on in this thread.
  template <class F>
  void change(F&& work) {
    std::coroutine_handle<> coroutine;
    {
      const std::lock_guard lock(mutex_);
      work();
      coroutine = std::exchange(suspended_, {});
      changed_.notify_all();
    }
    if (coroutine) coroutine.resume();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Token> tokens_;
  std::optional<Outcome> outcome_;
  std::coroutine_handle<> suspended_;
  std::function<void(const Outcome&)> on_end_;
};

}  // namespace detail

// The destructor cancels the request. Move-only; a stream that was moved from can only be assigned
// to or destroyed, and one that a coroutine awaits can be neither.
//
// Errors   outcome() and wait(): std::bad_alloc
// Threads  cancel() and done() for any, everything else for one at a time
class [[nodiscard]] Stream {
 public:
  Stream(std::shared_ptr<detail::Mailbox> mailbox, RequestId id)
      : mailbox_(std::move(mailbox)), id_(id) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    std::swap(mailbox_, other.mailbox_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Stream() { cancel(); }

  // The request's number in its service, from 1 on.
  RequestId id() const noexcept { return id_; }

  // Waits for the next token; std::nullopt after the last one.
  std::optional<Token> next() { return mailbox_->next(); }
  // The same, for at most so long, or without waiting. std::nullopt also if there is none yet:
  // done() tells.
  template <class Rep, class Period>
  std::optional<Token> next_for(const std::chrono::duration<Rep, Period>& duration) {
    return mailbox_->next_for(duration);
  }
  std::optional<Token> try_next() { return next_for(std::chrono::seconds(0)); }
  // Whether the request has ended and every token was taken.
  bool done() const { return mailbox_->done(); }

  // `co_await stream` is next() for a coroutine. It goes on in the service's thread, between steps:
  // it must not wait there, and its exceptions end the program if its promise lets them out.
  auto operator co_await() noexcept {
    struct Awaiter {
      detail::Mailbox& mailbox;
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> coroutine) { return mailbox.suspend(coroutine); }
      std::optional<Token> await_resume() { return mailbox.next(); }
    };
    return Awaiter{*mailbox_};
  }

  // How the request ended, if it has; its error is Outcome::error.
  std::optional<Outcome> outcome() const { return mailbox_->outcome(); }
  // Waits for the end of the request.
  Outcome wait() const { return mailbox_->wait(); }

  // Ends the request before the next step.
  void cancel() noexcept {
    if (mailbox_) mailbox_->cancel.request_stop();
  }

 private:
  std::shared_ptr<detail::Mailbox> mailbox_;
  RequestId id_ = 0;
};

}  // namespace decant::inline v0::decoding
