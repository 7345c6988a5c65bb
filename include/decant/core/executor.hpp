// decant/core/executor.hpp - the interface of what runs the pieces of a step.
//
// The library starts no thread on its own: a step hands its pieces to an Executor, which may be
// the serial one here, the pool of core/thread_pool.hpp, or the user's. Pieces never share a sum,
// so how they are spread cannot change a bit.
//
// Tested by   tests/core/executor_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace decant::inline DECANT_ABI {

// A borrowed callable: two pointers, no allocation. It must not outlive what it was made from.
template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<Result, F&, Arguments...>)
  FunctionRef(F&& f) noexcept  // NOLINT: a conversion, as from std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::add_pointer_t<F>>(object))(
              std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

// Threads  parallel_for may be called from several threads, but not from inside itself
class Executor {
 public:
  virtual ~Executor() = default;

  // How many workers there are, the calling thread among them.
  virtual Index threads() const noexcept = 0;

  // Calls piece(item, worker) once for every item in [0, items) and returns when all are done;
  // worker is in [0, threads()), and no two pieces of one call overlap on one worker. The first
  // exception of a piece is thrown again here.
  virtual void parallel_for(Index items, FunctionRef<void(Index item, Index worker)> piece) = 0;
};

// Runs every piece in order on the calling thread.
class SerialExecutor final : public Executor {
 public:
  Index threads() const noexcept override { return 1; }
  void parallel_for(Index items, FunctionRef<void(Index, Index)> piece) override {
    for (Index item = 0; item < items; ++item) piece(item, 0);
  }
};

// The default executor; it has no state.
inline Executor& serial_executor() {
  static SerialExecutor executor;
  return executor;
}

}  // namespace decant::inline DECANT_ABI
