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

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace decant::inline DECANT_ABI::snapshots {

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

  void add(const std::vector<Position>& windows) { add(std::span<const Position>(windows)); }

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
  // Every field but max_positions, which changes no key and no value. A score scale counts as what
  // it stands for, and a rotation as its frequencies.
  void add(const model::Config& config) {
    model::for_each_field(config, [&]<class T>(const model::Field<T>& field) {
      const void* value = &field.value;
      if constexpr (std::is_same_v<T, std::optional<attention::Rope>>) {
        add(field.value, config.key_dim);
      } else if (value == &config.score_scale) {
        add(config.effective_score_scale());
      } else if (value != &config.max_positions) {
        add(field.value);
      }
    });
  }

  std::string text() const { return hash_.text(); }

 private:
  void add(const std::optional<attention::Rope>& rope, Index key_dim) {
    add(rope.has_value());
    if (!rope) return;
    add(rope->pairing);
    add(std::span<const double>(attention::frequencies(*rope, key_dim)));
  }

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

}  // namespace decant::inline DECANT_ABI::snapshots
