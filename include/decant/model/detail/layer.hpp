// decant/model/detail/layer.hpp - one transformer layer over the rows of a step.
//
//   stream += output(attend(rotate(norm(q)), rotate(norm(k)), v))   of normed stream
//   stream += down(act(gate) * up)                                  of normed stream
//
// Source      Vaswani et al. 2017, arXiv:1706.03762; Touvron et al. 2023, arXiv:2302.13971
// Tested by   tests/model/step_test.cpp, against tests/reference/decoder.hpp
#pragma once

#include <decant/attention/detail/attend.hpp>
#include <decant/attention/rope.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/activation.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kernels/norm.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/detail/adapt.hpp>
#include <decant/model/detail/rows.hpp>
#include <decant/model/detail/sink_tokens.hpp>
#include <decant/model/detail/step_buffers.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/weights.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <span>

namespace decant::inline DECANT_ABI::model::detail {

inline void normalise(const Config& config, const NormWeights& weights, std::span<const float> x,
                      std::span<float> out) {
  if (config.norm == Norm::rms) {
    kernels::rms_norm(x, weights.weight, config.norm_epsilon, out);
  } else {
    kernels::layer_norm(x, weights.weight, weights.bias, config.norm_epsilon, out);
  }
}

// The residual stream, normed.
inline void normalise_rows(const Config& config, const NormWeights& weights, Index rows,
                           Workspace& workspace) {
  const float* in = buffers(workspace).stream.data();
  float* out = buffers(workspace).normed.data();
  const auto work = [&] { return row_work(rows, 2 * config.hidden_size, 2); };
  profiled(workspace.profile(), Operation::norms, work, [&] {
    for_rows(rows, workspace.executor(), [&](Index row) {
      normalise(config, weights, elements(in + row * config.hidden_size, config.hidden_size),
                elements(out + row * config.hidden_size, config.hidden_size));
    });
  });
}

inline const float* bias_of(const Linear& linear) {
  return linear.bias.empty() ? nullptr : linear.bias.data();
}

inline void multiply(const kernels::Matrix& matrix, const kernels::Product& product,
                     Workspace& workspace) {
  const auto work = [&] {
    const Work rows = row_work(product.rows, matrix.rows() + matrix.columns(), 0);
    return Work{static_cast<double>(matrix.bytes()) + rows.bytes,
                2.0 * static_cast<double>(product.rows) * static_cast<double>(matrix.rows()) *
                    static_cast<double>(matrix.columns())};
  };
  profiled(workspace.profile(), Operation::products, work,
           [&] { matrix.multiply(product, buffers(workspace).tiles, workspace.executor()); });
}

// One of the layer's products over all rows, and what adapters change in it.
inline void multiply(const Linear& linear, LayerProduct which, Index layer,
                     const kernels::Product& product, Workspace& workspace) {
  kernels::Product biased = product;
  biased.bias = bias_of(linear);
  multiply(linear.matrix, biased, workspace);
  adapt(which, layer, product, workspace);
}

// Normalises and rotates the heads of one row in place, as the model asks.
inline void prepare_heads(const Config& config, const NormWeights& norm, float* heads, Index count,
                          std::span<const float> cosines, std::span<const float> sines) {
  for (Index head = 0; head < count; ++head) {
    const std::span<float> at = elements(heads + head * config.key_dim, config.key_dim);
    if (!norm.weight.empty()) normalise(config, norm, at, at);
    if (config.rope) attention::rotate(at, cosines, sines, config.rope->pairing);
  }
}

// Finishes the queries and keys of every row and puts keys and values into their stores.
template <kv::Store S>
void store_rows(const Config& config, const LayerWeights& weights, Index layer,
                const Batch<S>& batch, Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  const Index stride = config.qkv_size();
  const Index angles = rotary_pairs(config);
  const auto work = [&] { return row_work(batch.rows(), 2 * stride, 4); };
  const auto store_row = [&](Index row) {
    const typename Batch<S>::Entry& entry = batch.entry_of(row);
    float* queries = step.qkv.data() + row * stride;
    float* keys = queries + config.heads * config.key_dim;
    float* values = keys + config.kv_heads * config.key_dim;
    const std::span<const float> cosines = elements(step.cosines.data() + row * angles, angles);
    const std::span<const float> sines = elements(step.sines.data() + row * angles, angles);
    if (config.has_sink_tokens(layer)) {
      const bool behind =
          sink_query_position(config, layer, entry.position(row)) != entry.position(row);
      float* sink_queries = step.sinks.queries.data() + row * config.heads * config.key_dim;
      std::copy_n(queries, config.heads * config.key_dim, sink_queries);
      prepare_heads(config, weights.query_norm, sink_queries, config.heads,
                    behind ? std::span<const float>(step.sinks.cosines) : cosines,
                    behind ? std::span<const float>(step.sinks.sines) : sines);
    }
    prepare_heads(config, weights.query_norm, queries, config.heads, cosines, sines);
    prepare_heads(config, weights.key_norm, keys, config.kv_heads, cosines, sines);
    for (Index head = 0; head < config.kv_heads; ++head) {
      entry.store->put(layer, head, entry.position(row),
                       elements(keys + head * config.key_dim, config.key_dim),
                       elements(values + head * config.value_dim, config.value_dim));
    }
  };
  profiled(workspace.profile(), Operation::rotation, work,
           [&] { for_rows(batch.rows(), workspace.executor(), store_row); });
}

// Every sequence's visible keys and values are read once; scores and sums are four flops an
// element.
template <kv::Store S>
Work attention_work(const Config& config, Index layer, const Batch<S>& batch) {
  const attention::Causal mask{config.window(layer)};
  const kv::Geometry geometry = config.geometry();
  const auto elements = static_cast<double>(config.key_dim + config.value_dim);
  Work work;
  for (const typename Batch<S>::Entry& entry : batch.entries()) {
    const Position first = entry.store->end();
    const Range keys = {mask.visible(first).begin, first + entry.rows};
    const Index sinks =
        config.has_sink_tokens(layer) ? std::min(config.sink_tokens, keys.begin) : 0;
    work.bytes += static_cast<double>(
        geometry.payload_bytes<typename S::Keys, typename S::Values>(keys.size() + sinks) /
        config.layers);
    for (Index row = 0; row < entry.rows; ++row) {
      const Range visible = mask.visible(first + row);
      const Index seen =
          visible.size() + (sinks > 0 ? std::min(config.sink_tokens, visible.begin) : 0);
      work.flops += 2.0 * static_cast<double>(seen * config.heads) * elements;
    }
  }
  return work;
}

template <kv::Store S>
void attend_rows(const Config& config, Index layer, Batch<S>& batch, Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  const Index stride = config.qkv_size();
  const Index out_stride = config.heads * config.value_dim;
  for (std::size_t at = 0; at < batch.entries().size(); ++at) {
    const typename Batch<S>::Entry& entry = batch.entries()[at];
    attention::Sequence<S>& sequence = sequences(batch)[at];
    sequence.first = entry.store->end();
    sequence.queries = step.qkv.data() + entry.first_row * stride;
    sequence.out = step.attended.data() + entry.first_row * out_stride;
  }
  const attention::Problem problem = {.layer = layer,
                                      .heads = config.heads,
                                      .scale = config.effective_score_scale(),
                                      .query_stride = stride,
                                      .out_stride = out_stride};
  profiled(
      workspace.profile(), Operation::attention,
      [&] { return attention_work(config, layer, batch); },
      [&] {
        if (config.has_sink_tokens(layer))
          return attend_beside_sinks(config, problem, batch, workspace);
        attention::attend(std::span<const attention::Sequence<S>>(sequences(batch)), problem,
                          attention::Causal{config.window(layer)}, attention::Plain{}, step.scratch,
                          workspace.executor());
      });
}

// act(gate) * up, or act(up), in place of gate or up.
inline void activate_rows(const Config& config, Index rows, Workspace& workspace) {
  const Index size = config.intermediate_size;
  const auto activate = [&](Index row) {
    float* inner = buffers(workspace).inner.data() + row * config.up_size();
    if (config.gated) {
      kernels::activate_gate(config.activation, elements(inner, size),
                             elements(inner + size, size));
    } else {
      kernels::activate(config.activation, elements(inner, size));
    }
  };
  const auto work = [&] { return row_work(rows, config.up_size() + size, 10); };
  profiled(workspace.profile(), Operation::activation, work,
           [&] { for_rows(rows, workspace.executor(), activate); });
}

// stream += down(act(gate) * up), or stream += down(act(up)), of the normed rows.
inline void feed_forward(const Config& config, const LayerWeights& weights, Index layer, Index rows,
                         Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  multiply(weights.up, LayerProduct::up, layer,
           {.rows = rows,
            .in = step.normed.data(),
            .in_stride = config.hidden_size,
            .out = step.inner.data(),
            .out_stride = config.up_size()},
           workspace);
  activate_rows(config, rows, workspace);
  multiply(weights.down, LayerProduct::down, layer,
           {.rows = rows,
            .in = step.inner.data(),
            .in_stride = config.up_size(),
            .out = step.stream.data(),
            .out_stride = config.hidden_size,
            .add = true},
           workspace);
}

// stream += output(attend(rotate(norm(q)), rotate(norm(k)), v)), of the normed rows.
template <kv::Store S>
void self_attention(const Config& config, const LayerWeights& weights, Index layer, Batch<S>& batch,
                    Workspace& workspace) {
  StepBuffers& step = buffers(workspace);
  multiply(weights.qkv, LayerProduct::qkv, layer,
           {.rows = batch.rows(),
            .in = step.normed.data(),
            .in_stride = config.hidden_size,
            .out = step.qkv.data(),
            .out_stride = config.qkv_size()},
           workspace);
  if (config.has_sink_tokens(layer)) rotate_behind_window(config, layer, step);
  store_rows(config, weights, layer, batch, workspace);
  attend_rows(config, layer, batch, workspace);
  multiply(weights.attention_output, LayerProduct::attention_output, layer,
           {.rows = batch.rows(),
            .in = step.attended.data(),
            .in_stride = config.heads * config.value_dim,
            .out = step.stream.data(),
            .out_stride = config.hidden_size,
            .add = true},
           workspace);
}

// The whole layer, in place on the residual stream.
template <kv::Store S>
void run_layer(const Config& config, const LayerWeights& weights, Index layer, Batch<S>& batch,
               Workspace& workspace) {
  normalise_rows(config, weights.attention_norm, batch.rows(), workspace);
  self_attention(config, weights, layer, batch, workspace);
  normalise_rows(config, weights.feed_forward_norm, batch.rows(), workspace);
  feed_forward(config, weights, layer, batch.rows(), workspace);
}

}  // namespace decant::inline DECANT_ABI::model::detail
