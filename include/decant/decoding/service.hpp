// decant/decoding/service.hpp - a scheduler for many threads: any of them submits, one runs steps.
//
// The service's thread runs steps while there is something to do and sleeps while there is nothing.
// Callers share an inbox and the stream of each request with it; no lock is held during a step.
//
// Tested by   tests/decoding/{service,stream,scheduler_fault}_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stream.hpp>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace decant::inline DECANT_ABI::decoding {

namespace detail {
class ServiceThread;
}

// A service has as many waiting requests as it takes. Nothing was changed.
class QueueFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ServiceOptions {
  // Requests that wait, preempted ones among them, before another one is refused.
  Index max_waiting = std::numeric_limits<Index>::max();
};

// What a monitor asks for, as of the last step whose events were delivered.
struct ServiceMetrics {
  SchedulerStatistics totals;
  Index running = 0;
  Index waiting = 0;
};

// Borrows a scheduler, which must not be used otherwise while the service exists. Its destructor
// cancels the requests that have not ended; streams may outlive it.
//
// Functions of requests are called in the service's thread. When a step fails eight times in a row
// (no memory, an executor that throws), all requests end with that error. Times of a request, its
// time in the queue among them, count from submit().
//
// Errors   std::system_error from the constructor if no thread can be started
// Threads  any; the destructor not in the service's own
class Service {
 public:
  explicit Service(Scheduler& scheduler, const ServiceOptions& options = {});
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  // Errors   as Scheduler::submit(), QueueFull; std::invalid_argument if options.cancel is set,
  //          since the stream sets it
  [[nodiscard]] Stream submit(Request request);

  // Without a stream: request.sink gets the tokens, on_end() the outcome, both in the service's
  // thread, and request.options.cancel may be set. on_end() must not throw. Returns the request's
  // number.
  //
  // Errors   as Scheduler::submit(), QueueFull; std::invalid_argument without on_end
  RequestId submit(Request request, std::function<void(const Outcome&)> on_end);

  // Runs f() in the service's thread between two steps, where scheduler, pool and prefix tree stand
  // still (to save a prefix cache, or to look at one), and waits for its result. f() must not run
  // steps. In the service's own thread it runs at once.
  //
  // Errors   what f() throws, std::bad_alloc
  template <class F>
  std::invoke_result_t<F&> run(F&& f) {
    using Result = std::invoke_result_t<F&>;
    if constexpr (std::is_void_v<Result>) {
      run_between_steps(f);
    } else {
      std::optional<Result> result;
      run_between_steps([&] { result.emplace(f()); });
      return std::move(*result);
    }
  }

  ServiceMetrics metrics() const;

 private:
  void run_between_steps(FunctionRef<void()> f);

  std::unique_ptr<detail::ServiceThread> thread_;
};

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/service.hpp>
#endif
