// decant/attention/score.hpp - what happens to a score between q·k and the softmax.
//
// Scores come scaled, sixteen keys at a time. A transform sees them with the row and head they
// belong to; it must not look at anything else, or a row would depend on its neighbours.
//
// Source      Gemma Team 2024, arXiv:2408.00118 (soft cap); ONNX Attention-23 (additive bias)
// Tested by   tests/attention/attend_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <concepts>

namespace decant::inline v0::attention {

// Where sixteen scores stand: `row` counts from the first row of its sequence in this call, `head`
// is a query head, `first_key` a position and a multiple of 16.
struct ScorePlace {
  Index sequence = 0;
  Index row = 0;
  Index head = 0;
  Position first_key = 0;
  Index keys = 0;  // how many of the sixteen are visible or precede a visible one
};

template <class F>
concept Score = requires(const F& transform, const simd::Lanes& scores, const ScorePlace& place) {
  { transform(scores, place) } -> std::same_as<simd::Lanes>;
};

// The score as it is.
struct Plain {
  DECANT_ALWAYS_INLINE simd::Lanes operator()(const simd::Lanes& scores,
                                              const ScorePlace&) const noexcept {
    return scores;
  }
};

// cap * tanh(score / cap): bounded by the cap, almost the identity near zero.
struct SoftCap {
  float cap = 50.0f;

  DECANT_ALWAYS_INLINE simd::Lanes operator()(const simd::Lanes& scores,
                                              const ScorePlace&) const noexcept {
    return simd::broadcast(cap) * simd::tanh(scores * simd::broadcast(1.0f / cap));
  }
};

// score + bias[sequence][head][row][key]; -inf hides a key, though its value, which counts zero
// times, must be finite. A stride of 0 shares the bias.
//
// Shape    bias holds a number for every position up to the last visible key, consecutive; those of
//          the 16 positions from a multiple of 16 on are read together
struct Bias {
  const float* bias = nullptr;
  Index sequence_stride = 0;
  Index head_stride = 0;
  Index row_stride = 0;

  DECANT_ALWAYS_INLINE simd::Lanes operator()(const simd::Lanes& scores,
                                              const ScorePlace& at) const noexcept {
    const float* from = bias + at.sequence * sequence_stride + at.head * head_stride +
                        at.row * row_stride + at.first_key;
    return scores + simd::load_first(from, at.keys);
  }
};

}  // namespace decant::inline v0::attention
