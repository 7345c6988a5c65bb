// decant/kernels/activation.hpp - the bends of feed-forward blocks, alone or as a gate.
//
// Source      Elfwing et al. 2017, arXiv:1702.03118 (SiLU); Hendrycks and Gimpel 2016,
//             arXiv:1606.08415 (GELU, exact and by tanh); Shazeer 2020, arXiv:2002.05202 (gates)
// Tested by   tests/kernels/activation_test.cpp, against tests/reference/activation.hpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <span>

namespace decant::inline v0::kernels {

enum class Activation { silu, gelu, gelu_tanh };

// x * sigmoid(x)
DECANT_ALWAYS_INLINE simd::Lanes silu(const simd::Lanes& x) { return x * simd::sigmoid(x); }

// x * Φ(x), with Φ by the error function.
inline simd::Lanes gelu(const simd::Lanes& x) {
  alignas(64) float at[kLanes];
  simd::store(at, x);
  for (float& number : at)
    number = 0.5f * number * (1.0f + std::erf(number * 0.70710678118654752f));
  return simd::load(at);
}

// The approximation that GPT-2 and Gemma were trained with.
DECANT_ALWAYS_INLINE simd::Lanes gelu_tanh(const simd::Lanes& x) {
  const simd::Lanes cubic = simd::madd(x * x * x, simd::broadcast(0.044715f), x);
  const simd::Lanes half = simd::broadcast(0.5f) * x;
  return simd::madd(half, simd::tanh(simd::broadcast(0.79788456080286536f) * cubic), half);
}

namespace detail {

template <class F>
void each_lanes(std::span<float> row, F&& f) {
  simd::for_lanes(std::ssize(row), [&](Index at, Index count) {
    simd::store_first(row.data() + at, f(simd::load_first(row.data() + at, count), at, count),
                      count);
  });
}

// f(bend) with the function on Lanes that `kind` names.
template <class F>
void with_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::silu:
      return f([](const simd::Lanes& x) { return silu(x); });
    case Activation::gelu:
      return f([](const simd::Lanes& x) { return gelu(x); });
    case Activation::gelu_tanh:
      return f([](const simd::Lanes& x) { return gelu_tanh(x); });
  }
}

}  // namespace detail

// row = act(row)
inline void activate(Activation kind, std::span<float> row) {
  detail::with_activation(kind, [&](auto bend) {
    detail::each_lanes(row, [&](const simd::Lanes& x, Index, Index) { return bend(x); });
  });
}

// gate = act(gate) * up
//
// Errors   std::invalid_argument when the sizes differ
inline void activate_gate(Activation kind, std::span<float> gate, std::span<const float> up) {
  expects(gate.size() == up.size(), "kernels::activate_gate: gate of ", gate.size(), ", up of ",
          up.size());
  detail::with_activation(kind, [&](auto bend) {
    detail::each_lanes(gate, [&](const simd::Lanes& x, Index at, Index count) {
      return bend(x) * simd::load_first(up.data() + at, count);
    });
  });
}

}  // namespace decant::inline v0::kernels
