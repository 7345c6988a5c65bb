// decant/decoding/event_list.hpp - what a step has to tell, kept until it was told.
//
// A step that throws has perhaps ended requests before: their events wait for the next. Room is
// made beforehand, so that nothing can be lost between what happens and what is told of it.
//
// Depends on  decoding/request.hpp
// Tested by   tests/decoding/scheduler_end_test.cpp, tests/decoding/scheduler_fault_test.cpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// Threads  one owner
class EventList {
 public:
  // Forgets what was told.
  void begin() noexcept {
    if (std::exchange(told_, false)) events_.clear();
  }

  // So many more can then be added without memory.
  //
  // Errors   std::bad_alloc
  void make_room(Index count) {
    const std::size_t size = events_.size() + static_cast<std::size_t>(count);
    if (size > events_.capacity()) events_.reserve(2 * size);
  }

  // Precondition: there is room.
  void add(Event&& event) noexcept { events_.push_back(std::move(event)); }

  // Everything since begin().
  std::span<Event> tell() noexcept {
    told_ = true;
    return events_;
  }

 private:
  std::vector<Event> events_;
  bool told_ = false;
};

}  // namespace detail

}  // namespace decant::inline v0::decoding
