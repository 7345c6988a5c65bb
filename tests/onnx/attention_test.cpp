// tests/onnx/attention_test.cpp - attention against the ONNX standard's cases.
#include "attention/run.hpp"
#include "onnx/attention_case.hpp"

namespace {

using namespace decant;
using onnx::AttentionCase;
using onnx::Case;

void check_twin(const Case& one) {
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

// The keys and values that the operator returns for the next call are what the store holds.
void check_present(const Case& one) {
  if (one.find("past_key") == nullptr) return;
  const std::vector<AttentionCase> sequences = onnx::attention_cases(one);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const AttentionCase& c = sequences[i];
    const auto keys = onnx::token_rows(one.at("present_key"), static_cast<Index>(i));
    const auto values = onnx::token_rows(one.at("present_value"), static_cast<Index>(i));
    const auto store = trial::store_of(c.how.kv_heads, c.keys, c.values, c.keys.rows);
    ASSERT_EQ(store.end(), keys.rows);
    const kv::Geometry& geometry = store.geometry();
    std::vector<float> key(static_cast<std::size_t>(geometry.key_dim));
    std::vector<float> value(static_cast<std::size_t>(geometry.value_dim));
    for (Position at = 0; at < store.end(); ++at) {
      for (Index head = 0; head < geometry.heads; ++head) {
        store.get(0, head, at, key, value);
        EXPECT_EQ(key, reference::to_float(reference::head_of(keys.row(at), head, c.how.kv_heads)));
        EXPECT_EQ(value,
                  reference::to_float(reference::head_of(values.row(at), head, c.how.kv_heads)));
      }
    }
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

TEST(Onnx, AttentionByTheTwin) { onnx::for_cases("Attention", 40, check_twin); }

TEST(Onnx, Attention) { onnx::for_cases("Attention", 40, check_library); }

}  // namespace
