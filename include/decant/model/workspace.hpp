// decant/model/workspace.hpp - the memory and the workers of a step, made once.
//
// A step allocates nothing: whatever flows between its operations lies in buffers of the largest
// size that the user foresaw. One workspace serves any number of sequences, one step at a time.
//
// Tested by   tests/model/step_test.cpp, tests/law/allocation_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/types.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/profile.hpp>

#include <memory>
#include <memory_resource>
#include <span>

namespace decant::inline DECANT_ABI::model {

class Workspace;
namespace detail {
struct StepBuffers;
StepBuffers& buffers(Workspace& workspace) noexcept;
}  // namespace detail

// Move-only; a workspace that was moved from may only be destroyed or assigned to.
//
// Errors   std::invalid_argument (a limit below 1), std::bad_alloc from the constructor
// Cost     the constructor allocates; a step within the limits does not
// Threads  one step at a time; executor and memory are borrowed and must outlive the workspace; the
//          executor must not change its number of threads
class Workspace {
 public:
  Workspace(const Config& config, const Limits& limits, Executor& executor = serial_executor(),
            std::pmr::memory_resource& memory = default_memory());
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;
  ~Workspace();

  const Limits& limits() const noexcept { return limits_; }
  const Config& config() const noexcept { return config_; }
  Executor& executor() noexcept { return *executor_; }

  // The profile that steps add the cost of their operations to; borrowed, null for none.
  Profile* profile() const noexcept { return profile_; }
  void set_profile(Profile* profile) noexcept { profile_ = profile; }

  // Logits of the i-th row that asked for them in the last step, in the order of the batch.
  //
  // Shape    [vocabulary]
  // Errors   std::invalid_argument when fewer rows did
  std::span<float> logits(Index at);
  // Hidden states of the i-th row that asked for them, likewise: what transformers calls
  // last_hidden_state, of which an output matrix makes logits.
  //
  // Shape    [hidden_size]
  // Errors   std::invalid_argument when fewer rows did
  std::span<const float> hidden(Index at) const;

 private:
  friend detail::StepBuffers& detail::buffers(Workspace& workspace) noexcept;

  Limits limits_;
  Config config_;
  Executor* executor_;
  Profile* profile_ = nullptr;
  std::unique_ptr<detail::StepBuffers> buffers_;
};

inline detail::StepBuffers& detail::buffers(Workspace& workspace) noexcept {
  return *workspace.buffers_;
}

}  // namespace decant::inline DECANT_ABI::model

#if !defined(DECANT_COMPILED)
#include <decant/model/detail/workspace.hpp>
#endif
