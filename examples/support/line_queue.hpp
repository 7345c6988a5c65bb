// examples/support/line_queue.hpp - lines of a stream, read by a thread of their own, so that work
// goes on while the stream is idle.
//
// Tested by   tests/examples/CMakeLists.txt (serve_batch)
#pragma once

#include <condition_variable>
#include <istream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace examples {

// The thread is never waited for, so that a program may end while its user types nothing: the
// stream must live as long as the program.
class LineQueue {
 public:
  explicit LineQueue(std::shared_ptr<std::istream> in) {
    std::thread([lines = lines_, in] { lines->read(*in); }).detach();
  }

  // The lines that have arrived; if `wait`, waits for one or for the end.
  std::vector<std::string> take(bool wait) { return lines_->take(wait); }

  // Whether all lines have been taken.
  bool ended() { return lines_->ended(); }

 private:
  class Lines {
   public:
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
    std::vector<std::string> take(bool wait) {
      std::unique_lock lock(mutex_);
      if (wait) changed_.wait(lock, [&] { return !lines_.empty() || ended_; });
      return std::exchange(lines_, {});
    }
    bool ended() {
      const std::lock_guard lock(mutex_);
      return ended_ && lines_.empty();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> lines_;
    bool ended_ = false;
  };

  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace examples
