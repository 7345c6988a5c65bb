// decant/kernels/product.hpp - what a product is asked: its rows, and what it does to them.
//
// Tested by   tests/kernels/product_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/types.hpp>

namespace decant::inline v0::kernels {

// What a product does to its rows: quantises them to what the machine multiplies with the weights
// in one instruction, bf16 beside bf16 weights and int8 beside blocks; or leaves them in f32.
enum class Activations { quantised, full };

// What weights of a format have unless the caller asks otherwise: quantised beside blocks, which
// have lost more already, and full beside all else, with the same bits on every machine.
constexpr Activations default_activations(codec::Type type) noexcept {
  return codec::is_block(type) ? Activations::quantised : Activations::full;
}

// What a product reads and writes: out = in * weightsᵀ, on top of what `out` holds where it adds,
// as to a residual stream, and of a bias where there is one.
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

}  // namespace decant::inline v0::kernels
