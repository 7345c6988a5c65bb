// decant/model/detail/workspace.hpp - defines model/workspace.hpp.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/model/config.hpp>
#include <decant/model/detail/step_buffers.hpp>
#include <decant/model/workspace.hpp>

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

namespace decant::inline DECANT_ABI::model {

namespace detail {

inline const Limits& checked(const Config& config, const Limits& limits) {
  check(config);
  expects(limits.rows >= 1 && limits.logit_rows >= 1 && limits.sequences >= 1 &&
              limits.hidden_rows >= 0,
          "model::Workspace: limits of ", limits.rows, " rows, ", limits.logit_rows,
          " logit rows, ", limits.sequences, " sequences, ", limits.hidden_rows,
          " rows of hidden states");
  return limits;
}

}  // namespace detail

DECANT_INLINE Workspace::Workspace(const Config& config, const Limits& limits, Executor& executor,
                                   std::pmr::memory_resource& memory)
    : limits_(detail::checked(config, limits)),
      config_(config),
      executor_(&executor),
      buffers_(std::make_unique<detail::StepBuffers>(config, limits, executor.threads(), memory)) {}
DECANT_INLINE Workspace::Workspace(Workspace&& other) noexcept = default;
DECANT_INLINE Workspace& Workspace::operator=(Workspace&& other) noexcept = default;
DECANT_INLINE Workspace::~Workspace() = default;

DECANT_INLINE std::span<const float> Workspace::hidden(Index at) const {
  expects(at >= 0 && at < buffers_->hidden_rows, "model::Workspace: row ", at, " of ",
          buffers_->hidden_rows, " with hidden states");
  return {buffers_->hidden.data() + at * config_.hidden_size,
          static_cast<std::size_t>(config_.hidden_size)};
}

DECANT_INLINE std::span<float> Workspace::logits(Index at) {
  expects(at >= 0 && at < buffers_->logit_rows, "model::Workspace: logit row ", at, " of ",
          buffers_->logit_rows);
  return {buffers_->logits.data() + at * config_.vocabulary,
          static_cast<std::size_t>(config_.vocabulary)};
}

}  // namespace decant::inline DECANT_ABI::model
