// decant/kernels/activation.hpp - the activations of feed-forward layers, alone or as a gate.
//
// Source      Elfwing et al. 2017, arXiv:1702.03118 (SiLU); Hendrycks and Gimpel 2016,
//             arXiv:1606.08415 (GELU, exact and by tanh); Shazeer 2020, arXiv:2002.05202 (gates)
// Tested by   tests/kernels/activation_test.cpp, against tests/reference/activation.hpp
#pragma once

#include <decant/core/config.hpp>

#include <span>

namespace decant::inline DECANT_ABI::kernels {

enum class Activation { silu, gelu, gelu_tanh };

// row = act(row)
void activate(Activation kind, std::span<float> row);

// gate = act(gate) * up
//
// Errors   std::invalid_argument when the sizes differ
void activate_gate(Activation kind, std::span<float> gate, std::span<const float> up);

}  // namespace decant::inline DECANT_ABI::kernels

#if !defined(DECANT_COMPILED)
#include <decant/kernels/detail/activation.hpp>
#endif
