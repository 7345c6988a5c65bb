// decant/attention/detail/score.hpp - defines the transforms of attention/score.hpp.
#pragma once

#include <decant/attention/score.hpp>
#include <decant/core/config.hpp>
#include <decant/simd/lanes.hpp>

namespace decant::inline DECANT_ABI::attention {

DECANT_ALWAYS_INLINE simd::Lanes Plain::operator()(const simd::Lanes& scores,
                                                   const ScorePlace&) const noexcept {
  return scores;
}

DECANT_ALWAYS_INLINE simd::Lanes SoftCap::operator()(const simd::Lanes& scores,
                                                     const ScorePlace&) const noexcept {
  return simd::broadcast(cap) * tanh(scores * simd::broadcast(1.0f / cap));
}

DECANT_ALWAYS_INLINE simd::Lanes Bias::operator()(const simd::Lanes& scores,
                                                  const ScorePlace& at) const noexcept {
  const float* from = bias + at.sequence * sequence_stride + at.head * head_stride +
                      at.row * row_stride + at.first_key;
  return scores + simd::load_first(from, at.keys);
}

}  // namespace decant::inline DECANT_ABI::attention
