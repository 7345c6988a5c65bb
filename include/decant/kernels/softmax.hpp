// decant/kernels/softmax.hpp - a softmax over part of the keys, and how two parts become one.
//
// Keys arrive in tiles and segments, so a row keeps the maximum of its scores, the sum of their
// exponentials below that maximum, and the sum of values weighted the same way. Two such parts
// merge exactly up to rounding; since rounding depends on the order, segments are always merged in
// ascending order of position.
//
// Source      Milakov and Gimelshein 2018, arXiv:1805.02867; Rabe and Staats 2021,
//             arXiv:2112.05682
// Tested by   tests/kernels/softmax_test.cpp, against tests/reference/softmax.hpp
#pragma once

#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace decant::inline v0::kernels {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// What a row knows of the keys seen so far; its weighted values stand beside it, undivided.
struct SoftmaxPart {
  float maximum = kNoScore;
  float sum = 0.0f;  // of e^(score - maximum)

  bool empty() const noexcept { return maximum == kNoScore; }
};

// The natural logarithm of the sum of e^score; -inf where no key was seen.
inline float log_sum_exp(const SoftmaxPart& part) noexcept {
  return part.empty() ? kNoScore : part.maximum + std::log(part.sum);
}

// Adds the keys of `other` to `part`. An empty part changes nothing, not even a bit.
//
// Shape    values and other_values are [value_dim]
inline void merge(SoftmaxPart& part, std::span<float> values, const SoftmaxPart& other,
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

// Adds a key that takes weight and has no value. One of -inf changes nothing, not even a bit.
//
// Source   Xiao et al. 2023, arXiv:2309.17453; gpt-oss (a learned logit a head)
inline void add_sink(SoftmaxPart& part, std::span<float> values, float score) {
  if (score == kNoScore) return;
  if (part.empty()) {
    part = {score, simd::exp(score - score)};  // 1, or no number
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

// Divides the weighted values by their weights: the output of the row, zeros where no key was seen.
inline void finish(const SoftmaxPart& part, std::span<float> values) {
  const simd::Lanes scale = simd::broadcast(part.empty() ? 0.0f : 1.0f / part.sum);
  simd::for_lanes(std::ssize(values), [&](Index at, Index count) {
    const simd::Lanes value =
        part.empty() ? simd::broadcast(0.0f) : simd::load_first(values.data() + at, count);
    simd::store_first(values.data() + at, value * scale, count);
  });
}

}  // namespace decant::inline v0::kernels
