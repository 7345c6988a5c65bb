// tests/attention/run.hpp - attention of the library on the reference's matrices.
#pragma once

#include "law/bits.hpp"
#include "reference/matrix.hpp"

#include <decant/attention/attend.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace decant::trial {

// Values in [-1, 1) that f32 holds exactly.
inline reference::Matrix noisy_rows(Index rows, Index columns, std::uint64_t seed) {
  reference::Matrix result(rows, columns);
  std::ranges::copy(noisy(rows * columns, seed), result.cells.begin());
  return result;
}

// Writes row i of keys and values to position first + i, of layer 0.
//
// Shape    keys [rows, kv_heads * key_dim], values [rows, kv_heads * value_dim]
template <codec::Codec K, codec::Codec V>
void put_rows(kv::Contiguous<K, V>& store, Position first, const reference::Matrix& keys,
              const reference::Matrix& values) {
  const kv::Geometry& geometry = store.geometry();
  const auto head_of = [](const std::vector<float>& row, Index head, Index dim) {
    return std::span(row).subspan(static_cast<std::size_t>(head * dim),
                                  static_cast<std::size_t>(dim));
  };
  for (Index i = 0; i < keys.rows; ++i) {
    const std::vector<float> key = reference::to_float(keys.row(i));
    const std::vector<float> value = reference::to_float(values.row(i));
    for (Index head = 0; head < geometry.heads; ++head) {
      store.put(0, head, first + i, head_of(key, head, geometry.key_dim),
                head_of(value, head, geometry.value_dim));
    }
  }
}

// A store that holds the rows given; every other slot is full of NaN.
template <codec::Codec K = codec::F32, codec::Codec V = K>
kv::Contiguous<K, V> store_of(Index kv_heads, const reference::Matrix& keys,
                              const reference::Matrix& values, Index capacity) {
  kv::Contiguous<K, V> store({1, kv_heads, keys.columns / kv_heads, values.columns / kv_heads},
                             capacity);
  reference::Matrix poison_keys(capacity, keys.columns);
  reference::Matrix poison_values(capacity, values.columns);
  for (auto* poison : {&poison_keys, &poison_values}) {
    for (double& cell : poison->cells) cell = std::numeric_limits<double>::quiet_NaN();
  }
  store.reserve(capacity);
  put_rows(store, 0, poison_keys, poison_values);
  put_rows(store, 0, keys, values);
  store.publish(keys.rows);
  return store;
}

// Shape    output [rows, heads * value_dim], log_sum_exp [rows, heads]
struct Attended {
  std::vector<float> output;
  std::vector<float> log_sum_exp;
};

// One sequence of a call: its row 0 stands at `first`.
template <codec::Codec K, codec::Codec V = K>
struct Question {
  const kv::Contiguous<K, V>* store;
  Position first;
  reference::Matrix queries;  // [rows, heads * key_dim]
};

// All sequences in one call. Outputs start as NaN, so what is not written shows.
template <codec::Codec K, codec::Codec V = K, attention::Mask M,
          attention::Score F = attention::Plain>
std::vector<Attended> attend(const std::vector<Question<K, V>>& questions, Index heads,
                             double scale, const M& mask, const F& transform = {},
                             Executor& executor = serial_executor(), const float* sinks = nullptr) {
  const kv::Geometry& geometry = questions.front().store->geometry();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> queries;
  std::vector<Attended> results;
  for (const Question<K, V>& question : questions) {
    queries.push_back(reference::to_float(question.queries.cells));
    const auto outputs = static_cast<std::size_t>(question.queries.rows * heads);
    results.push_back({std::vector(outputs * static_cast<std::size_t>(geometry.value_dim), nan),
                       std::vector(outputs, nan)});
  }
  std::vector<attention::Sequence<kv::Contiguous<K, V>>> sequences;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    sequences.push_back({questions[i].store, questions[i].first, questions[i].queries.rows,
                         queries[i].data(), results[i].output.data(),
                         results[i].log_sum_exp.data()});
  }
  const attention::Problem problem = {.layer = 0,
                                      .heads = heads,
                                      .scale = static_cast<float>(scale),
                                      .query_stride = heads * geometry.key_dim,
                                      .out_stride = heads * geometry.value_dim,
                                      .sinks = sinks};
  attention::Scratch scratch(geometry, heads, executor.threads(), std::ssize(sequences), 4096);
  attention::attend(std::span<const attention::Sequence<kv::Contiguous<K, V>>>(sequences), problem,
                    mask, transform, scratch, executor);
  return results;
}

// The same for one sequence.
template <codec::Codec K, codec::Codec V, attention::Mask M, attention::Score F = attention::Plain>
Attended attend(const kv::Contiguous<K, V>& store, Position first, const reference::Matrix& queries,
                Index heads, double scale, const M& mask, const F& transform = {},
                Executor& executor = serial_executor(), const float* sinks = nullptr) {
  const std::vector<Question<K, V>> one = {{&store, first, queries}};
  return attend(one, heads, scale, mask, transform, executor, sinks).front();
}

}  // namespace decant::trial
