// decant/decoding/detail/stream.hpp - defines decoding/stream.hpp.
//
// Tested by   tests/decoding/stream_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/mailbox.hpp>
#include <decant/decoding/stream.hpp>

#include <chrono>
#include <coroutine>
#include <optional>

namespace decant::inline DECANT_ABI::decoding {

DECANT_INLINE std::optional<NewToken> Stream::next() { return mailbox_->next(); }
DECANT_INLINE std::optional<NewToken> Stream::next_for(std::chrono::nanoseconds duration) {
  return mailbox_->next_for(duration);
}
DECANT_INLINE bool Stream::done() const { return mailbox_->done(); }
DECANT_INLINE bool Stream::suspend(std::coroutine_handle<> coroutine) {
  return mailbox_->suspend(coroutine);
}
DECANT_INLINE std::optional<Outcome> Stream::outcome() const { return mailbox_->outcome(); }
DECANT_INLINE Outcome Stream::wait() const { return mailbox_->wait(); }
DECANT_INLINE void Stream::cancel() noexcept {
  if (mailbox_) mailbox_->cancel.request_stop();
}

}  // namespace decant::inline DECANT_ABI::decoding
