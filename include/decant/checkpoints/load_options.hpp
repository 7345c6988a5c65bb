// decant/checkpoints/load_options.hpp - how a checkpoint becomes weights in memory.
//
// Tested by   tests/checkpoints/load_options_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/kernels/product.hpp>

#include <optional>

namespace decant::inline v0::checkpoints {

// `weights` is the format of every matrix of a product, embedding and output included; without
// one, each keeps the format of its file. Norms, biases and learned positions are f32 always.
// `activations` says what a product does to its rows where its matrix is in bf16 or in blocks.
struct LoadOptions {
  std::optional<codec::Type> weights = std::nullopt;
  std::optional<kernels::Activations> activations = std::nullopt;
};

}  // namespace decant::inline v0::checkpoints
