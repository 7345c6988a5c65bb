// tests/onnx/attention_test.cpp - attention against the ONNX standard's cases.
#include "attention/run.hpp"
#include "onnx/attention_case.hpp"

#include <decant/kv/interchange.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace {

using namespace decant;
using onnx::AttentionCase;
using onnx::Case;

void check_reference(const Case& one) {
  for (const AttentionCase& c : onnx::attention_cases(one)) {
    const auto result = reference::attend(c.how, c.queries, c.keys, c.values);
    onnx::expect_close(reference::to_float(result.output.cells),
                       reference::to_float(c.expected.cells), onnx::tolerance(one));
  }
}

// bias[head][row][key] of one sequence.
std::vector<float> bias_of(const AttentionCase& c) {
  std::vector<float> bias;
  for (Index head = 0; head < c.how.heads; ++head) {
    for (Index row = 0; row < c.queries.rows; ++row) {
      for (Index key = 0; key < c.keys.rows; ++key) {
        bias.push_back(static_cast<float>(c.how.bias(head, row, key)));
      }
    }
  }
  return bias;
}

template <codec::Codec C, attention::Mask M>
trial::Attended attend(const AttentionCase& c, const M& mask) {
  const auto store = trial::store_of<C>(c.how.kv_heads, c.keys, c.values, c.keys.rows);
  const auto with = [&](const auto& transform) {
    return trial::attend(store, c.how.past, c.queries, c.how.heads, c.how.scale, mask, transform);
  };
  if (c.how.softcap != 0) {
    return with(attention::SoftCap{static_cast<float>(c.how.softcap)});
  }
  if (!c.how.bias) return with(attention::Plain{});
  const std::vector<float> bias = bias_of(c);
  return with(attention::Bias{
      .bias = bias.data(), .head_stride = c.queries.rows * c.keys.rows, .row_stride = c.keys.rows});
}

template <codec::Codec C>
void check_with(const Case& one) {
  for (const AttentionCase& c : onnx::attention_cases(one)) {
    ASSERT_TRUE(c.how.softcap == 0 || !c.how.bias);
    const trial::Attended result = c.how.causal
                                       ? attend<C>(c, attention::Causal{})
                                       : attend<C>(c, attention::Bidirectional{c.keys.rows});
    onnx::expect_close(result.output, reference::to_float(c.expected.cells), onnx::tolerance(one));
  }
}

// Sequence `batch` of keys and values [batch][heads][tokens][dim].
kv::SequenceArrays<const float> arrays_of(const onnx::Tensor& keys, const onnx::Tensor& values,
                                          Index batch) {
  const auto from = [&](const onnx::Tensor& tensor) {
    return tensor.values.data() + batch * tensor.extent(1) * tensor.extent(2) * tensor.extent(3);
  };
  return {from(keys), from(values), keys.extent(2)};
}

// The keys and values that the operator returns for the next call are those of a store that was
// given the past and the new ones.
void check_present(const Case& one) {
  if (one.find("past_key") == nullptr || one.at("K").shape.size() != 4) return;
  const onnx::Tensor& present = one.at("present_key");
  const Index heads = present.extent(1), tokens = present.extent(2), dim = present.extent(3);
  const Index value_dim = one.at("present_value").extent(3);
  for (Index batch = 0; batch < present.extent(0); ++batch) {
    kv::Contiguous<codec::F32> store({1, heads, dim, value_dim}, tokens);
    for (const auto& arrays : {arrays_of(one.at("past_key"), one.at("past_value"), batch),
                               arrays_of(one.at("K"), one.at("V"), batch)}) {
      kv::append(store, std::span(&arrays, 1), {0, arrays.tokens});
    }
    std::vector<float> keys(static_cast<std::size_t>(heads * tokens * dim));
    std::vector<float> values(static_cast<std::size_t>(heads * tokens * value_dim));
    kv::copy_out(store, 0, {0, tokens}, {keys.data(), values.data(), tokens});
    const auto expected = arrays_of(present, one.at("present_value"), batch);
    EXPECT_TRUE(std::equal(keys.begin(), keys.end(), expected.keys));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), expected.values));
  }
}

// Half-precision inputs are stored as they are.
void check_library(const Case& one) {
  if (one.at("K").type == "float16") {
    check_with<codec::F16>(one);
  } else {
    check_with<codec::F32>(one);
  }
  check_present(one);
}

TEST(Onnx, AttentionByTheReference) { onnx::for_cases("Attention", 40, check_reference); }

TEST(Onnx, Attention) { onnx::for_cases("Attention", 40, check_library); }

}  // namespace
