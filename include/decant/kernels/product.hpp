// decant/kernels/product.hpp - the arguments of a product, and whether it quantises its rows.
//
// Tested by   tests/kernels/product_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/types.hpp>

namespace decant::inline DECANT_ABI::kernels {

// Whether a product quantises its rows to the format that the machine multiplies with the weights
// in one instruction (bf16 for bf16 weights, int8 for blocks) or leaves them in f32.
enum class Activations { quantised, full };

// The default for weights of a format: quantised for blocks, which have lost more already, and full
// for all others, with the same bits on every machine.
constexpr Activations default_activations(codec::Type type) noexcept {
  return codec::is_block(type) ? Activations::quantised : Activations::full;
}

// One product: out = in * weightsᵀ, plus a bias if there is one, plus what `out` holds if `add` is
// set, as for a residual stream.
//
// Shape    in [rows][columns of the weights], out [rows][outputs], each row strides apart;
//          bias [outputs] or null. `out` must not overlap `in`
struct Product {
  Index rows = 0;
  const float* in = nullptr;
  Index in_stride = 0;
  float* out = nullptr;
  Index out_stride = 0;
  bool add = false;
  const float* bias = nullptr;
};

}  // namespace decant::inline DECANT_ABI::kernels
