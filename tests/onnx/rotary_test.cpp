// tests/onnx/rotary_test.cpp - rotary embedding against the ONNX standard's cases.
#include <decant/attention/rope.hpp>

#include "onnx/cases.hpp"

#include <span>

namespace {

using namespace decant;
using onnx::Case;
using onnx::Tensor;

// Shape    input [batch, heads, tokens, head_dim], or [batch, tokens, heads * head_dim];
//          caches [positions, rotary pairs]; position_ids [batch, tokens]
void check_rotary(const Case& one) {
  const Tensor& input = one.at("input");
  const Tensor& cosines = one.at("cos_cache");
  const Tensor& positions = one.at("position_ids");
  const bool flat = input.shape.size() == 3;
  const Index tokens = positions.extent(1);
  const Index heads = flat ? one.integer("num_heads", 0) : input.extent(1);
  const Index head_dim = flat ? input.extent(2) / heads : input.extent(3);
  const auto rotary_pairs = static_cast<std::size_t>(cosines.extent(1));
  const auto pairing = one.integer("interleaved", 0) != 0 ? attention::Pairing::interleaved
                                                          : attention::Pairing::half_split;
  std::vector<float> x = input.values;
  for (Index at = 0; at < std::ssize(x) / head_dim; ++at) {
    const Index token = flat ? at / heads % tokens : at % tokens;
    const Index batch = at / (heads * tokens);
    const auto position = static_cast<std::size_t>(
        positions.values[static_cast<std::size_t>(batch * tokens + token)]);
    const auto head = std::span(x).subspan(static_cast<std::size_t>(at * head_dim),
                                           static_cast<std::size_t>(head_dim));
    attention::rotate(
        head, std::span(cosines.values).subspan(position * rotary_pairs, rotary_pairs),
        std::span(one.at("sin_cache").values).subspan(position * rotary_pairs, rotary_pairs),
        pairing);
  }
  onnx::expect_close(x, one.at("output").values, 1e-6);
}

TEST(Onnx, RotaryEmbedding) { onnx::for_cases("RotaryEmbedding", 5, check_rotary); }

}  // namespace
