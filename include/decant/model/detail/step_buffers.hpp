// decant/model/detail/step_buffers.hpp - the buffers between the operations of a step.
//
// Tested by   tests/model/step_test.cpp, tests/law/allocation_test.cpp
#pragma once

#include <decant/attention/problem.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <memory_resource>
#include <vector>

namespace decant::inline DECANT_ABI::model::detail {

inline Index rotary_pairs(const Config& config) {
  return config.rope ? config.rope->dim(config.key_dim) / 2 : 0;
}

// The widest row that a product of the model reads.
inline Index widest_input(const Config& config) {
  return std::max({config.hidden_size, config.heads * config.value_dim, config.intermediate_size});
}

// The buffers of rows that see sink tokens beside a window: queries rotated for those, and both
// results.
struct SinkTokenBuffers {
  SinkTokenBuffers(const Config& config, Index rows, std::pmr::memory_resource& memory)
      : queries(checked_product({rows, config.heads, config.key_dim}), memory),
        attended(checked_product({rows, config.heads, config.value_dim}), memory),
        log_sum_exp(checked_product(rows, config.heads), memory),
        sink_log_sum_exp(checked_product(rows, config.heads), memory),
        cosines(static_cast<std::size_t>(rotary_pairs(config))),
        sines(cosines.size()) {}

  Buffer<float> queries;              // [rows][heads][key_dim]
  Buffer<float> attended;             // [rows][heads][value_dim]
  Buffer<float> log_sum_exp;          // [rows][heads], of the window
  Buffer<float> sink_log_sum_exp;     // [rows][heads]
  std::vector<float> cosines, sines;  // [rotary pairs], of the place behind a full window
};

// The rows of a step that have an adapter, and what a worker needs to add its changes to them.
struct AdapterBuffers {
  static constexpr Index kRunRows = 24;  // four tiles of a product, which read an adapter once

  struct Run {
    const Adapter* adapter;
    Range rows;  // of one sequence, at most kRunRows
  };
  struct Worker {
    Worker(const Config& config, std::pmr::memory_resource& memory)
        : tiles(kRunRows, widest_input(config), memory),
          reduced(checked_product(kRunRows, widest_input(config)), memory) {}

    kernels::RowTiles tiles;
    Buffer<float> reduced;  // [rows of a run][rank]
  };

  AdapterBuffers(const Config& config, const Limits& limits, Index threads,
                 std::pmr::memory_resource& memory) {
    runs.reserve(static_cast<std::size_t>(limits.rows));
    workers.reserve(static_cast<std::size_t>(threads));
    for (Index worker = 0; worker < threads; ++worker) workers.emplace_back(config, memory);
  }

  std::vector<Run> runs;
  std::vector<Worker> workers;
};

struct StepBuffers {
  StepBuffers(const Config& config, const Limits& limits, Index threads,
              std::pmr::memory_resource& memory)
      : stream(checked_product(limits.rows, config.hidden_size), memory),
        normed(checked_product(limits.rows, config.hidden_size), memory),
        qkv(checked_product(limits.rows, config.qkv_size()), memory),
        attended(checked_product({limits.rows, config.heads, config.value_dim}), memory),
        inner(checked_product(limits.rows, config.up_size()), memory),
        cosines(checked_product(limits.rows, rotary_pairs(config)), memory),
        sines(checked_product(limits.rows, rotary_pairs(config)), memory),
        sinks(config, config.sink_tokens > 0 ? limits.rows : 0, memory),
        logits(checked_product(limits.logit_rows, config.vocabulary), memory),
        hidden(checked_product(limits.hidden_rows, config.hidden_size), memory),
        tiles(limits.rows, widest_input(config), memory),
        adapters(config, limits, threads, memory),
        scratch(config.geometry(), config.heads, threads, limits.sequences, config.max_positions,
                memory) {
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
  Buffer<float> logits;   // [logit rows][vocabulary]
  Index logit_rows = 0;   // that the last step filled
  Buffer<float> hidden;   // [rows of hidden states][hidden_size]
  Index hidden_rows = 0;  // likewise
  kernels::RowTiles tiles;
  AdapterBuffers adapters;
  attention::Scratch scratch;
  std::vector<double> frequencies;  // [rotary pairs]
};

}  // namespace decant::inline DECANT_ABI::model::detail
