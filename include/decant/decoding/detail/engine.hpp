// decant/decoding/detail/engine.hpp - what a scheduler does, whatever the format of its pages.
//
// Each function is the one of the same name in decoding/scheduler.hpp.
//
// Tested by   tests/decoding/scheduler{,_pages,_end,_fault}_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>

#include <exception>
#include <span>

namespace decant::inline DECANT_ABI::decoding::detail {

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual void check(const Request& request) const = 0;
  virtual RequestId submit(Request&& request, const Stopwatch& since) = 0;
  virtual bool cancel(RequestId id) noexcept = 0;
  virtual bool preempt(RequestId id) noexcept = 0;
  virtual std::span<Event> step() = 0;
  virtual std::span<Event> end_all(const std::exception_ptr& error) = 0;
  virtual Index running() const noexcept = 0;
  virtual Index waiting() const noexcept = 0;
  virtual const SchedulerStatistics& statistics() const noexcept = 0;
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
