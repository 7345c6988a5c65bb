// decant/snapshots/detail/fingerprint.hpp - definition of snapshots/fingerprint.hpp.
//
// Tested by   tests/snapshots/fingerprint_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/core/types.hpp>
#include <decant/files/hash.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/weights.hpp>
#include <decant/snapshots/fingerprint.hpp>

#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace decant::inline v0::snapshots {

namespace detail {

class Fingerprint {
 public:
  template <class Number>
  void add(std::span<const Number> values) {
    add(static_cast<Index>(values.size()));
    hash_.add(std::as_bytes(values));
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void add(Number number) {
    hash_.add(std::as_bytes(std::span(&number, 1)));
  }
  template <class E>
  requires std::is_enum_v<E>
  void add(E name) {
    add(static_cast<int>(name));
  }

  // The elements as a product reads them, however they are packed, and whether it quantises
  // activations.
  void add(const kernels::Matrix& matrix) {
    add(matrix.type());
    add(matrix.activations());
    add(matrix.rows());
    std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
    for (Index at = 0; at < matrix.rows(); ++at) {
      matrix.row(at, row);
      add(std::span<const float>(row));
    }
  }
  void add(const model::NormWeights& norm) {
    add(std::span<const float>(norm.weight));
    add(std::span<const float>(norm.bias));
  }
  void add(const model::Linear& linear) {
    add(linear.matrix);
    add(std::span<const float>(linear.bias));
  }
  void add(const model::LayerWeights& layer) {
    for (const auto* norm :
         {&layer.attention_norm, &layer.query_norm, &layer.key_norm, &layer.feed_forward_norm}) {
      add(*norm);
    }
    for (const auto* linear : {&layer.qkv, &layer.attention_output, &layer.up, &layer.down}) {
      add(*linear);
    }
  }
  void add(const model::Config& config) {
    for (Index number :
         {config.vocabulary, config.layers, config.hidden_size, config.heads, config.kv_heads,
          config.key_dim, config.value_dim, config.intermediate_size}) {
      add(number);
    }
    add(config.norm);
    add(config.activation);
    add(config.gated);
    for (float number :
         {config.norm_epsilon, config.embedding_scale, config.effective_score_scale()}) {
      add(number);
    }
    add(std::span<const Position>(config.windows));
    add(config.sink_tokens);
    add(config.rope.has_value());
    if (!config.rope) return;
    add(config.rope->pairing);
    add(std::span<const double>(attention::frequencies(*config.rope, config.key_dim)));
  }

  std::string text() const { return hash_.text(); }

 private:
  files::Hash hash_;
};

}  // namespace detail

DECANT_IO_INLINE std::string fingerprint(const model::Decoder& decoder) {
  detail::Fingerprint print;
  print.add(decoder.config());
  const model::Weights& weights = decoder.weights();
  print.add(weights.embedding);
  print.add(std::span<const float>(weights.positions));
  for (const model::LayerWeights& layer : weights.layers) print.add(layer);
  print.add(weights.output_norm);
  print.add(weights.output);
  return print.text();
}

}  // namespace decant::inline v0::snapshots
