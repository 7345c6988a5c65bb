// decant/decoding/detail/mailbox.hpp - what a service and the caller of a request share.
//
// Tested by   tests/decoding/{service,stream}_test.cpp
#pragma once

#include <decant/decoding/request.hpp>

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

class Mailbox {
 public:
  explicit Mailbox(std::function<void(const Outcome&)> on_end = {}) : on_end_(std::move(on_end)) {}

  // Of the service.
  //
  // Errors   deliver(): std::bad_alloc; nothing is delivered then
  void deliver(const std::vector<NewToken>& fresh) {
    if (on_end_ || fresh.empty()) return;
    change([&] { tokens_.insert(tokens_.end(), fresh.begin(), fresh.end()); });
  }
  void end(Outcome&& with) noexcept {
    if (on_end_) on_end_(with);
    change([&] { outcome_ = std::move(with); });
  }

  // Of the stream.
  std::optional<NewToken> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready(); });
    return take();
  }
  std::optional<NewToken> next_for(std::chrono::nanoseconds duration) {
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
  std::optional<NewToken> take() {
    if (tokens_.empty()) return std::nullopt;
    NewToken token = std::move(tokens_.front());
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
  std::deque<NewToken> tokens_;
  std::optional<Outcome> outcome_;
  std::coroutine_handle<> suspended_;
  std::function<void(const Outcome&)> on_end_;
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
