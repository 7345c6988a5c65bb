// decant/kernels/norm.hpp - root-mean-square and layer normalisation of one row.
//
// Both add in sixteen lanes, element i into lane i mod 16, and then along one fixed tree: the sum
// of a row has one order on every machine.
//
// Source      Zhang and Sennrich 2019, arXiv:1910.07467; Ba et al. 2016, arXiv:1607.06450
// Tested by   tests/kernels/norm_test.cpp, against tests/reference/norm.hpp
#pragma once

#include <decant/core/config.hpp>

#include <span>

namespace decant::inline DECANT_ABI::kernels {

// out = x / sqrt(mean(x²) + epsilon) * weight
//
// Shape    x, weight and out are [n]; out may be x
// Errors   std::invalid_argument when the sizes differ
void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon,
              std::span<float> out);

// out = (x - mean) / sqrt(variance + epsilon) * weight + bias
//
// Shape    x, weight and out are [n]; bias is [n] or empty; out may be x
// Errors   std::invalid_argument when the sizes differ
void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float epsilon, std::span<float> out);

}  // namespace decant::inline DECANT_ABI::kernels

#if !defined(DECANT_COMPILED)
#include <decant/kernels/detail/norm.hpp>
#endif
