// decant/kernels/detail/softmax.hpp - defines kernels/softmax.hpp, sixteen lanes at a time.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/softmax.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

DECANT_INLINE void merge(SoftmaxPart& part, std::span<float> values, const SoftmaxPart& other,
                         std::span<const float> other_values) {
  if (other.empty()) return;
  if (part.empty()) {
    part = other;
    std::copy(other_values.begin(), other_values.end(), values.begin());
    return;
  }
  const float maximum = std::max(part.maximum, other.maximum);
  const float weight = simd::exp(part.maximum - maximum);
  const float other_weight = simd::exp(other.maximum - maximum);
  part.maximum = maximum;
  part.sum = simd::madd(part.sum, weight, other.sum * other_weight);
  simd::for_lanes(std::ssize(values), [&](Index at, Index count) {
    const simd::Lanes added =
        simd::load_first(other_values.data() + at, count) * simd::broadcast(other_weight);
    const simd::Lanes held = simd::load_first(values.data() + at, count);
    simd::store_first(values.data() + at, simd::madd(held, simd::broadcast(weight), added), count);
  });
}

DECANT_INLINE void add_sink(SoftmaxPart& part, std::span<float> values, float score) {
  if (score == kNoScore) return;
  if (part.empty()) {
    part = {score, simd::exp(score - score)};  // 1, or NaN
    std::fill(values.begin(), values.end(), 0.0f);
    return;
  }
  const float maximum = std::max(part.maximum, score);
  const float weight = simd::exp(part.maximum - maximum);
  part.maximum = maximum;
  part.sum = simd::madd(part.sum, weight, simd::exp(score - maximum));
  simd::for_lanes(std::ssize(values), [&](Index at, Index count) {
    simd::store_first(values.data() + at,
                      simd::load_first(values.data() + at, count) * simd::broadcast(weight), count);
  });
}

DECANT_INLINE void finish(const SoftmaxPart& part, std::span<float> values) {
  const simd::Lanes scale = simd::broadcast(part.empty() ? 0.0f : 1.0f / part.sum);
  simd::for_lanes(std::ssize(values), [&](Index at, Index count) {
    const simd::Lanes value =
        part.empty() ? simd::broadcast(0.0f) : simd::load_first(values.data() + at, count);
    simd::store_first(values.data() + at, value * scale, count);
  });
}

}  // namespace decant::inline DECANT_ABI::kernels
