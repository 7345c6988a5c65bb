// decant/attention/score.hpp - what happens to a score between q·k and the softmax.
//
// Scores come scaled, sixteen keys at a time. A transform sees them with the row and head they
// belong to; it must not look at anything else, or a row would depend on its neighbours. A source
// that has a transform of its own includes simd/lanes.hpp.
//
// Source      Gemma Team 2024, arXiv:2408.00118 (soft cap); ONNX Attention-23 (additive bias)
// Tested by   tests/attention/attend_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>

#include <concepts>
#include <utility>

namespace decant::inline DECANT_ABI::simd {
struct Lanes;  // simd/lanes.hpp
}

namespace decant::inline DECANT_ABI::attention {

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
concept Score = std::same_as<decltype(std::declval<const F&>()(std::declval<const simd::Lanes&>(),
                                                               std::declval<const ScorePlace&>())),
                             simd::Lanes>;

// The score as it is.
struct Plain {
  simd::Lanes operator()(const simd::Lanes& scores, const ScorePlace& at) const noexcept;
};

// cap * tanh(score / cap): bounded by the cap, almost the identity near zero.
struct SoftCap {
  float cap = 50.0f;

  simd::Lanes operator()(const simd::Lanes& scores, const ScorePlace& at) const noexcept;
};

// score + bias[sequence][head][row][key]; -inf hides a key, but its value, which is multiplied by
// zero, must be finite. A stride of 0 shares the bias.
//
// Shape    bias holds an element for every position up to the last visible key, consecutive; the 16
//          from a position that is a multiple of 16 on are read together
struct Bias {
  const float* bias = nullptr;
  Index sequence_stride = 0;
  Index head_stride = 0;
  Index row_stride = 0;

  simd::Lanes operator()(const simd::Lanes& scores, const ScorePlace& at) const noexcept;
};

}  // namespace decant::inline DECANT_ABI::attention

#if !defined(DECANT_COMPILED)
#include <decant/attention/detail/score.hpp>
#endif
