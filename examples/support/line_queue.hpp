// examples/support/line_queue.hpp - lines of a stream, read by a thread of their own, so that work
// goes on while none comes.
//
// Depends on  the standard library
// Tested by   tests/examples/CMakeLists.txt (serve_batch)
#pragma once

#include <condition_variable>
#include <istream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace examples {

// Borrows a stream, which must end before the queue does.
class LineQueue {
 public:
  explicit LineQueue(std::istream& in) : reader_([this, &in] { read(in); }) {}

  // The lines that have come; waits for one, or for the end, where it is asked to.
  std::vector<std::string> take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [&] { return !lines_.empty() || ended_; });
    return std::exchange(lines_, {});
  }

  // Whether all lines have been taken.
  bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_ && lines_.empty();
  }

 private:
  void read(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::move(line));
      changed_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  std::jthread reader_;  // last: it uses all the others
};

}  // namespace examples
