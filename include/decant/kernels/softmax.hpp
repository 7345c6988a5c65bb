// decant/kernels/softmax.hpp - a softmax over part of the keys, and how two parts become one.
//
// Keys arrive in tiles and segments, so a row has the maximum of its scores, the sum of their
// exponentials below that maximum, and the sum of values weighted the same way. Two such parts
// merge exactly up to rounding; since rounding depends on the order, segments are always merged in
// ascending order of position.
//
// Source      Milakov and Gimelshein 2018, arXiv:1805.02867; Rabe and Staats 2021,
//             arXiv:2112.05682
// Tested by   tests/kernels/softmax_test.cpp, against tests/reference/softmax.hpp
#pragma once

#include <decant/core/config.hpp>

#include <cmath>
#include <limits>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// The softmax of a row over the keys seen so far; the weighted sum of their values is stored beside
// it, not yet divided.
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
void merge(SoftmaxPart& part, std::span<float> values, const SoftmaxPart& other,
           std::span<const float> other_values);

// Adds a key that takes weight and has no value. One of -inf changes nothing, not even a bit.
//
// Source   Xiao et al. 2023, arXiv:2309.17453; gpt-oss (a learned logit a head)
void add_sink(SoftmaxPart& part, std::span<float> values, float score);

// Divides the weighted values by their weights: the output of the row, zeros where no key was seen.
void finish(const SoftmaxPart& part, std::span<float> values);

}  // namespace decant::inline DECANT_ABI::kernels

#if !defined(DECANT_COMPILED)
#include <decant/kernels/detail/softmax.hpp>
#endif
