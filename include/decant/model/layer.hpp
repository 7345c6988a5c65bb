// decant/model/layer.hpp - one transformer layer over the rows of a step.
//
//   stream += output(attend(rotate(norm(q)), rotate(norm(k)), v))   of normed stream
//   stream += down(act(gate) * up)                                  of normed stream
//
// Depends on  attention/attend.hpp, attention/rope.hpp, kernels/*, model/{batch,weights,workspace}
// Source      Vaswani et al. 2017, arXiv:1706.03762; Touvron et al. 2023, arXiv:2302.13971
// Tested by   tests/model/step_test.cpp, against tests/reference/decoder.hpp
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/activation.hpp>
#include <decant/kernels/norm.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <span>

namespace decant::inline v0::model::detail {

template <class Number>
std::span<Number> numbers(Number* data, Index size) {
  return {data, static_cast<std::size_t>(size)};
}

inline void normalise(const Config& config, const NormWeights& weights, std::span<const float> x,
                      std::span<float> out) {
  if (config.norm == Norm::rms) {
    kernels::rms_norm(x, weights.weight, config.norm_epsilon, out);
  } else {
    kernels::layer_norm(x, weights.weight, weights.bias, config.norm_epsilon, out);
  }
}

// work(row) for every row, in pieces of a few rows.
template <class F>
void for_rows(Index rows, Executor& executor, F&& work) {
  constexpr Index kRows = 8;
  executor.parallel_for(ceil_div(rows, kRows), [&](Index piece, Index) {
    for (Index row = piece * kRows; row < std::min(rows, (piece + 1) * kRows); ++row) work(row);
  });
}

inline void normalise_rows(const Config& config, const NormWeights& weights, Index rows,
                           const float* in, float* out, Executor& executor) {
  for_rows(rows, executor, [&](Index row) {
    normalise(config, weights, numbers(in + row * config.width, config.width),
              numbers(out + row * config.width, config.width));
  });
}

inline const float* bias_of(const Linear& linear) {
  return linear.bias.empty() ? nullptr : linear.bias.data();
}

// Norms and turns the heads of one row in place, as the model asks.
inline void prepare_heads(const Config& config, const NormWeights& norm, float* heads, Index count,
                          std::span<const float> cosines, std::span<const float> sines) {
  for (Index head = 0; head < count; ++head) {
    const std::span<float> at = numbers(heads + head * config.key_dim, config.key_dim);
    if (!norm.weight.empty()) normalise(config, norm, at, at);
    if (config.rope) attention::rotate(at, cosines, sines, config.rope->pairing);
  }
}

// Finishes the queries and keys of every row and puts keys and values into their stores.
template <kv::Store S>
void store_rows(const Config& config, const LayerWeights& weights, Index layer,
                const Batch<S>& batch, Workspace& workspace) {
  StepBuffers& buffers = workspace.buffers();
  const Index width = qkv_width(config);
  const Index pairs = rotary_pairs(config);
  for (const typename Batch<S>::Entry& entry : batch.entries()) {
    for_rows(entry.rows, workspace.executor(), [&](Index at) {
      const Index row = entry.first_row + at;
      float* queries = buffers.qkv.data() + row * width;
      float* keys = queries + config.heads * config.key_dim;
      float* values = keys + config.kv_heads * config.key_dim;
      const auto cosines = numbers(buffers.cosines.data() + row * pairs, pairs);
      const auto sines = numbers(buffers.sines.data() + row * pairs, pairs);
      prepare_heads(config, weights.query_norm, queries, config.heads, cosines, sines);
      prepare_heads(config, weights.key_norm, keys, config.kv_heads, cosines, sines);
      for (Index head = 0; head < config.kv_heads; ++head) {
        entry.store->put(layer, head, entry.store->end() + at,
                         numbers(keys + head * config.key_dim, config.key_dim),
                         numbers(values + head * config.value_dim, config.value_dim));
      }
    });
  }
}

template <kv::Store S>
void attend_rows(const Config& config, Index layer, Batch<S>& batch, Workspace& workspace) {
  StepBuffers& buffers = workspace.buffers();
  const Index width = qkv_width(config);
  const Index out_width = config.heads * config.value_dim;
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    const typename Batch<S>::Entry& entry = batch.entries()[at];
    attention::Sequence<S>& sequence = batch.sequences()[at];
    sequence.first = entry.store->end();
    sequence.queries = buffers.qkv.data() + entry.first_row * width;
    sequence.out = buffers.attended.data() + entry.first_row * out_width;
  }
  attention::attend(std::span<const attention::Sequence<S>>(batch.sequences()),
                    {.layer = layer,
                     .heads = config.heads,
                     .scale = config.effective_score_scale(),
                     .query_stride = width,
                     .out_stride = out_width},
                    attention::Causal{config.window(layer)}, attention::Plain{}, buffers.scratch,
                    workspace.executor());
}

// stream += down(act(gate) * up), or stream += down(act(up)), of the normed rows.
inline void feed_forward(const Config& config, const LayerWeights& weights, Index rows,
                         Workspace& workspace) {
  StepBuffers& buffers = workspace.buffers();
  Executor& executor = workspace.executor();
  const Index size = config.feed_forward;
  const Index width = config.gated ? 2 * size : size;
  weights.up.matrix.multiply({.rows = rows,
                              .in = buffers.normed.data(),
                              .in_stride = config.width,
                              .out = buffers.inner.data(),
                              .out_stride = width,
                              .bias = bias_of(weights.up)},
                             buffers.tiles, executor);
  for_rows(rows, executor, [&](Index row) {
    float* inner = buffers.inner.data() + row * width;
    if (config.gated) {
      kernels::activate_gate(config.activation, numbers(inner, size), numbers(inner + size, size));
    } else {
      kernels::activate(config.activation, numbers(inner, size));
    }
  });
  weights.down.matrix.multiply({.rows = rows,
                                .in = buffers.inner.data(),
                                .in_stride = width,
                                .out = buffers.stream.data(),
                                .out_stride = config.width,
                                .add = true,
                                .bias = bias_of(weights.down)},
                               buffers.tiles, executor);
}

// The whole layer, in place on buffers.stream.
template <kv::Store S>
void run_layer(const Config& config, const LayerWeights& weights, Index layer, Batch<S>& batch,
               Workspace& workspace) {
  const Index rows = batch.rows();
  StepBuffers& buffers = workspace.buffers();
  Executor& executor = workspace.executor();
  normalise_rows(config, weights.attention_norm, rows, buffers.stream.data(), buffers.normed.data(),
                 executor);
  weights.qkv.matrix.multiply({.rows = rows,
                               .in = buffers.normed.data(),
                               .in_stride = config.width,
                               .out = buffers.qkv.data(),
                               .out_stride = qkv_width(config),
                               .bias = bias_of(weights.qkv)},
                              buffers.tiles, executor);
  store_rows(config, weights, layer, batch, workspace);
  attend_rows(config, layer, batch, workspace);
  weights.attention_output.matrix.multiply({.rows = rows,
                                            .in = buffers.attended.data(),
                                            .in_stride = config.heads * config.value_dim,
                                            .out = buffers.stream.data(),
                                            .out_stride = config.width,
                                            .add = true,
                                            .bias = bias_of(weights.attention_output)},
                                           buffers.tiles, executor);
  normalise_rows(config, weights.feed_forward_norm, rows, buffers.stream.data(),
                 buffers.normed.data(), executor);
  feed_forward(config, weights, rows, workspace);
}

}  // namespace decant::inline v0::model::detail
