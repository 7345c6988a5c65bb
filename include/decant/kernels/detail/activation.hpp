// decant/kernels/detail/activation.hpp - defines kernels/activation.hpp, sixteen lanes at a time.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/activation.hpp>
#include <decant/simd/lanes.hpp>

#include <cmath>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

namespace detail {

// x * sigmoid(x)
DECANT_ALWAYS_INLINE simd::Lanes silu(const simd::Lanes& x) { return x * simd::sigmoid(x); }

// x * Φ(x), with Φ by the error function.
inline simd::Lanes gelu(const simd::Lanes& x) {
  alignas(64) float at[kLanes];
  simd::store(at, x);
  for (float& value : at) value = 0.5f * value * (1.0f + std::erf(value * 0.70710678118654752f));
  return simd::load(at);
}

// The approximation that GPT-2 and Gemma were trained with.
DECANT_ALWAYS_INLINE simd::Lanes gelu_tanh(const simd::Lanes& x) {
  const simd::Lanes cubic = simd::madd(x * x * x, simd::broadcast(0.044715f), x);
  const simd::Lanes half = simd::broadcast(0.5f) * x;
  return simd::madd(half, simd::tanh(simd::broadcast(0.79788456080286536f) * cubic), half);
}

template <class F>
void each_lanes(std::span<float> row, F&& f) {
  simd::for_lanes(std::ssize(row), [&](Index at, Index count) {
    simd::store_first(row.data() + at, f(simd::load_first(row.data() + at, count), at, count),
                      count);
  });
}

// f(act) with the function on Lanes that `kind` names.
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

DECANT_INLINE void activate(Activation kind, std::span<float> row) {
  detail::with_activation(kind, [&](auto act) {
    detail::each_lanes(row, [&](const simd::Lanes& x, Index, Index) { return act(x); });
  });
}

DECANT_INLINE void activate_gate(Activation kind, std::span<float> gate,
                                 std::span<const float> up) {
  expects(gate.size() == up.size(), "kernels::activate_gate: gate of ", gate.size(), ", up of ",
          up.size());
  detail::with_activation(kind, [&](auto act) {
    detail::each_lanes(gate, [&](const simd::Lanes& x, Index at, Index count) {
      return act(x) * simd::load_first(up.data() + at, count);
    });
  });
}

}  // namespace decant::inline DECANT_ABI::kernels
