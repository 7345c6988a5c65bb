// decant/decoding/detail/event_list.hpp - the events of a step, held until a step has returned
// them.
//
// A step that throws may have ended requests before: their events come with the next. Room is made
// beforehand, so that nothing is lost between what happens and its event.
//
// Tested by   tests/decoding/scheduler_end_test.cpp, tests/decoding/scheduler_fault_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding::detail {

// Threads  one owner
class EventList {
 public:
  // Drops the events that were returned.
  void begin() noexcept {
    if (std::exchange(returned_, false)) events_.clear();
  }

  // `count` more can then be added without memory.
  //
  // Errors   std::bad_alloc
  void make_room(Index count) {
    const std::size_t size = events_.size() + static_cast<std::size_t>(count);
    if (size > events_.capacity()) events_.reserve(2 * size);
  }

  // Precondition: there is room.
  void add(Event&& event) noexcept { events_.push_back(std::move(event)); }

  // Everything since begin().
  std::span<Event> take() noexcept {
    returned_ = true;
    return events_;
  }

 private:
  std::vector<Event> events_;
  bool returned_ = false;
};

}  // namespace decant::inline v0::decoding::detail
