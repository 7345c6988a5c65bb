// tests/onnx/tensor_scatter_test.cpp - writes into a linear cache against the standard's cases.
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>

#include "onnx/cases.hpp"

#include <span>
#include <vector>

namespace {

using namespace decant;
using onnx::Case;
using onnx::Tensor;

// Rows of one sequence: [batch, tokens, dim], or [batch, 1, tokens, dim].
std::span<const float> row(const Tensor& tensor, Index batch, Index token) {
  const Index dim = tensor.extent(-1);
  return std::span(tensor.values)
      .subspan(static_cast<std::size_t>((batch * tensor.extent(-2) + token) * dim),
               static_cast<std::size_t>(dim));
}

void check_scatter(const Case& one) {
  const Tensor& past = one.at("past_cache");
  const Tensor& update = one.at("update");
  const Index slots = past.extent(-2);
  ASSERT_TRUE(past.shape.size() == 3 || past.extent(1) == 1);
  std::vector<float> present;
  for (Index batch = 0; batch < past.extent(0); ++batch) {
    kv::Contiguous<codec::F32> store({1, 1, past.extent(-1), past.extent(-1)}, slots);
    store.reserve(slots);
    for (Index at = 0; at < slots; ++at) {
      store.put(0, 0, at, row(past, batch, at), row(past, batch, at));
    }
    const auto first =
        static_cast<Position>(one.at("write_indices").values[static_cast<std::size_t>(batch)]);
    for (Index i = 0; i < update.extent(-2); ++i) {
      store.put(0, 0, first + i, row(update, batch, i), row(update, batch, i));
    }
    store.publish(slots);
    std::vector<float> key(static_cast<std::size_t>(past.extent(-1)));
    std::vector<float> value(key.size());
    for (Index at = 0; at < slots; ++at) {
      store.get(0, 0, at, key, value);
      EXPECT_EQ(key, value);
      present.insert(present.end(), key.begin(), key.end());
    }
  }
  EXPECT_EQ(present, one.at("present_cache").values);
}

TEST(Onnx, TensorScatter) { onnx::for_cases("TensorScatter", 2, check_scatter); }

}  // namespace
