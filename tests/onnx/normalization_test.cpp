// tests/onnx/normalization_test.cpp - the norms and Swish against the ONNX standard's cases.
#include <decant/kernels/activation.hpp>
#include <decant/kernels/norm.hpp>

#include "onnx/cases.hpp"

#include <span>

namespace {

using namespace decant;
using onnx::Case;
using onnx::Tensor;

// Everything from `axis` on is one row: the normalised axes, flattened.
Index row_size(const Case& one) {
  const Tensor& x = one.at("X");
  const Index axis = one.integer("axis", -1);
  Index size = 1;
  for (Index i = axis < 0 ? axis + std::ssize(x.shape) : axis; i < std::ssize(x.shape); ++i) {
    size *= x.extent(i);
  }
  return size;
}

template <class Norm>
void check_rows(const Case& one, Norm norm) {
  const std::vector<float>& x = one.at("X").values;
  std::vector<float> y(x.size());
  const auto size = static_cast<std::size_t>(row_size(one));
  for (std::size_t at = 0; at < x.size(); at += size) {
    norm(std::span(x).subspan(at, size), std::span(y).subspan(at, size));
  }
  onnx::expect_close(y, one.at("Y").values, 1e-6);
}

void check_rms_norm(const Case& one) {
  const auto epsilon = static_cast<float>(one.number("epsilon", 1e-5));
  check_rows(one, [&](std::span<const float> x, std::span<float> y) {
    kernels::rms_norm(x, one.at("W").values, epsilon, y);
  });
}

void check_layer_norm(const Case& one) {
  const auto epsilon = static_cast<float>(one.number("epsilon", 1e-5));
  check_rows(one, [&](std::span<const float> x, std::span<float> y) {
    kernels::layer_norm(x, one.at("W").values, one.at("B").values, epsilon, y);
  });
}

void check_swish(const Case& one) {
  ASSERT_EQ(one.number("alpha", 1.0), 1.0);
  std::vector<float> x = one.at("x").values;
  kernels::activate(kernels::Activation::silu, x);
  onnx::expect_close(x, one.at("y").values, 1e-6);
}

TEST(Onnx, RmsNormalization) { onnx::for_cases("RMSNormalization", 9, check_rms_norm); }

TEST(Onnx, LayerNormalization) { onnx::for_cases("LayerNormalization", 9, check_layer_norm); }

TEST(Onnx, Swish) { onnx::for_cases("Swish", 1, check_swish); }

}  // namespace
