// decant/model/workspace.hpp - the memory and the workers of a step, made once.
//
// A step allocates nothing: whatever flows between its operations lies in buffers of the largest
// size that the user foresaw. One workspace serves any number of sequences, one step at a time.
//
// Tested by   tests/model/step_test.cpp, tests/law/allocation_test.cpp
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
#include <decant/model/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::inline v0::model {

// The largest step that a workspace has room for.
struct Limits {
  Index rows = 512;
  Index logit_rows = 1;
  Index sequences = 1;
};

inline Index rotary_pairs(const Config& config) {
  return config.rope ? config.rope->dim(config.key_dim) / 2 : 0;
}

// The widest row that a product of the model reads.
inline Index widest_input(const Config& config) {
  return std::max({config.hidden_size, config.heads * config.value_dim, config.intermediate_size});
}

// What rows that see sink tokens beside a window take: queries turned for those, and both results.
struct SinkTokenBuffers {
  SinkTokenBuffers(const Config& config, Index rows)
      : queries(checked_product({rows, config.heads, config.key_dim})),
        attended(checked_product({rows, config.heads, config.value_dim})),
        log_sum_exp(checked_product(rows, config.heads)),
        sink_log_sum_exp(checked_product(rows, config.heads)),
        cosines(static_cast<std::size_t>(rotary_pairs(config))),
        sines(cosines.size()) {}

  Buffer<float> queries;              // [rows][heads][key_dim]
  Buffer<float> attended;             // [rows][heads][value_dim]
  Buffer<float> log_sum_exp;          // [rows][heads], of the window
  Buffer<float> sink_log_sum_exp;     // [rows][heads]
  std::vector<float> cosines, sines;  // [rotary pairs], of the place behind a full window
};

// What flows through a step; the decoder's own.
struct StepBuffers {
  StepBuffers(const Config& config, const Limits& limits, Index threads)
      : stream(checked_product(limits.rows, config.hidden_size)),
        normed(checked_product(limits.rows, config.hidden_size)),
        qkv(checked_product(limits.rows, config.qkv_size())),
        attended(checked_product({limits.rows, config.heads, config.value_dim})),
        inner(checked_product(limits.rows, config.up_size())),
        cosines(checked_product(limits.rows, rotary_pairs(config))),
        sines(checked_product(limits.rows, rotary_pairs(config))),
        sinks(config, config.sink_tokens > 0 ? limits.rows : 0),
        logits(checked_product(limits.logit_rows, config.vocabulary)),
        tiles(limits.rows, widest_input(config)),
        scratch(config.geometry(), config.heads, threads, limits.sequences, config.max_positions) {
    if (config.rope) frequencies = attention::frequencies(*config.rope, config.key_dim);
  }

  Buffer<float> stream;    // [rows][hidden_size], the residual stream
  Buffer<float> normed;    // [rows][hidden_size]
  Buffer<float> qkv;       // [rows][queries of all heads | keys | values]
  Buffer<float> attended;  // [rows][heads][value_dim]
  Buffer<float> inner;     // [rows][gate | up], or [rows][up]
  Buffer<float> cosines;   // [rows][rotary pairs]
  Buffer<float> sines;     // [rows][rotary pairs]
  SinkTokenBuffers sinks;
  Buffer<float> logits;  // [logit rows][vocabulary]
  Index logit_rows = 0;  // that the last step filled
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

  // Where steps note what their operations cost; borrowed, and null for nowhere.
  Profile* profile() const noexcept { return profile_; }
  void set_profile(Profile* profile) noexcept { profile_ = profile; }

  // Logits of the i-th row that asked for them in the last step, in the order of the batch.
  //
  // Shape    [vocabulary]
  // Errors   std::invalid_argument when fewer rows did
  std::span<float> logits(Index at) {
    expects(at >= 0 && at < buffers_.logit_rows, "model::Workspace: logit row ", at, " of ",
            buffers_.logit_rows);
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
  Profile* profile_ = nullptr;
  StepBuffers buffers_;
};

}  // namespace decant::inline v0::model
