// decant/model/workspace.hpp - the memory and the workers of a step, made once.
//
// Depends on  attention/{problem,rope}.hpp, core/executor.hpp, kernels/row_tiles.hpp,
// model/config.hpp Tested by   tests/model/step_test.cpp, tests/law/allocation_test.cpp
#pragma once

#include <decant/attention/problem.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace decant::inline v0::model {

// The largest step that a workspace has room for.
struct Limits {
  Index rows = 512;
  Index logit_rows = 1;
  Index sequences = 1;
};

// Numbers of one row of stacked queries, keys and values.
inline Index qkv_width(const Config& config) {
  return (config.heads + config.kv_heads) * config.key_dim + config.kv_heads * config.value_dim;
}

inline Index rotary_pairs(const Config& config) {
  if (!config.rope) return 0;
  return (config.rope->rotary_dim == 0 ? config.key_dim : config.rope->rotary_dim) / 2;
}

// The widest row that a product of the model reads.
inline Index widest_input(const Config& config) {
  return std::max({config.width, config.heads * config.value_dim, config.feed_forward});
}

// What flows through a step; the decoder's own.
struct StepBuffers {
  StepBuffers(const Config& config, const Limits& limits, Index threads)
      : stream(checked_product(limits.rows, config.width)),
        normed(checked_product(limits.rows, config.width)),
        qkv(checked_product(limits.rows, qkv_width(config))),
        attended(checked_product({limits.rows, config.heads, config.value_dim})),
        inner(checked_product({limits.rows, config.gated ? 2 : 1, config.feed_forward})),
        cosines(checked_product(limits.rows, rotary_pairs(config))),
        sines(checked_product(limits.rows, rotary_pairs(config))),
        logits(checked_product(limits.logit_rows, config.vocabulary)),
        tiles(checked_product(limits.rows, widest_input(config))),
        scratch(config.geometry(), config.heads, threads, limits.sequences, config.max_positions) {
    if (config.rope) frequencies = attention::frequencies(*config.rope, config.key_dim);
  }

  Buffer<float> stream;    // [rows][width], the residual stream
  Buffer<float> normed;    // [rows][width]
  Buffer<float> qkv;       // [rows][queries of all heads | keys | values]
  Buffer<float> attended;  // [rows][heads][value_dim]
  Buffer<float> inner;     // [rows][gate | up], or [rows][up]
  Buffer<float> cosines;   // [rows][rotary pairs]
  Buffer<float> sines;     // [rows][rotary pairs]
  Buffer<float> logits;    // [logit rows][vocabulary]
  kernels::RowTiles tiles;
  attention::Scratch scratch;
  std::vector<double> frequencies;  // [rotary pairs]
};

// Errors   std::invalid_argument (a limit below 1), std::bad_alloc from the constructor
// Cost     the constructor allocates; a step within the limits does not
// Threads  one step at a time; the executor is borrowed, must outlive the workspace and must keep
//          its number of threads
class Workspace {
 public:
  Workspace(const Config& config, const Limits& limits, Executor& executor = serial_executor())
      : limits_(checked(config, limits)),
        config_(config),
        executor_(&executor),
        buffers_(config, limits, executor.threads()) {}

  const Limits& limits() const noexcept { return limits_; }
  const Config& config() const noexcept { return config_; }
  Executor& executor() noexcept { return *executor_; }
  StepBuffers& buffers() noexcept { return buffers_; }

  // Logits of the i-th row that asked for them in the last step, in the order of the batch.
  //
  // Shape    [vocabulary]
  // Errors   std::invalid_argument
  std::span<float> logits(Index at) {
    expects(at >= 0 && at < limits_.logit_rows, "model::Workspace: logit row ", at, " of ",
            limits_.logit_rows);
    return {buffers_.logits.data() + at * config_.vocabulary,
            static_cast<std::size_t>(config_.vocabulary)};
  }

 private:
  static const Limits& checked(const Config& config, const Limits& limits) {
    check(config);
    expects(limits.rows >= 1 && limits.logit_rows >= 1 && limits.sequences >= 1,
            "model::Workspace: limits of ", limits.rows, " rows, ", limits.logit_rows,
            " logit rows, ", limits.sequences, " sequences");
    return limits;
  }

  Limits limits_;
  Config config_;
  Executor* executor_;
  StepBuffers buffers_;
};

}  // namespace decant::inline v0::model
