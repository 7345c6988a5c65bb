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
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

namespace decant::inline DECANT_ABI::decoding {

namespace detail {
class Mailbox;
}

// The destructor cancels the request. Move-only; a stream that was moved from can only be assigned
// to or destroyed, and one that a coroutine awaits can be neither.
//
// Errors   outcome() and wait(): std::bad_alloc
// Threads  cancel() and done() for any, everything else for one at a time
class [[nodiscard]] Stream {
 public:
  Stream(std::shared_ptr<detail::Mailbox> mailbox, RequestId id) noexcept
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
  std::optional<NewToken> next();
  // The same, for at most so long, or without waiting. std::nullopt also if there is none yet:
  // done() tells.
  std::optional<NewToken> next_for(std::chrono::nanoseconds duration);
  std::optional<NewToken> try_next() { return next_for(std::chrono::nanoseconds(0)); }
  // Whether the request has ended and every token was taken.
  bool done() const;

  // `co_await stream` is next() for a coroutine. It goes on in the service's thread, between steps:
  // it must not wait there, and its exceptions end the program if its promise lets them out.
  auto operator co_await() noexcept {
    struct Awaiter {
      Stream& stream;
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> coroutine) { return stream.suspend(coroutine); }
      std::optional<NewToken> await_resume() { return stream.next(); }
    };
    return Awaiter{*this};
  }

  // How the request ended, if it has; its error is Outcome::error.
  std::optional<Outcome> outcome() const;
  // Waits for the end of the request.
  Outcome wait() const;

  // Ends the request before the next step.
  void cancel() noexcept;

 private:
  // False if a token or the end is there already.
  bool suspend(std::coroutine_handle<> coroutine);

  std::shared_ptr<detail::Mailbox> mailbox_;
  RequestId id_ = 0;
};

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/stream.hpp>
#endif
