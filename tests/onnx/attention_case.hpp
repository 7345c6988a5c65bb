// tests/onnx/attention_case.hpp - an Attention node as lists of rows, one problem per sequence.
//
// The operator takes heads in front of tokens (4-D) or inside them (3-D), keys in two pieces
// (past and new), and masks of three shapes. Here all of that becomes rows of tokens.
#pragma once

#include "onnx/cases.hpp"
#include "reference/attention.hpp"

#include <limits>
#include <vector>

namespace decant::onnx {

// One sequence. Row r of the queries stands at position how.past + r; without a past the first
// row stands at position 0 however many keys there are.
struct AttentionCase {
  reference::Attention how;
  reference::Matrix queries;   // [rows, heads * key_dim]
  reference::Matrix keys;      // [positions, kv_heads * key_dim]
  reference::Matrix values;    // [positions, kv_heads * value_dim]
  reference::Matrix expected;  // [rows, heads * value_dim]
};

// Rows of sequence `batch`: [batch, heads, tokens, dim] or [batch, tokens, heads * dim].
inline reference::Matrix token_rows(const Tensor& tensor, Index batch) {
  const bool flat = tensor.shape.size() == 3;
  const Index heads = flat ? 1 : tensor.extent(1);
  const Index tokens = tensor.extent(flat ? 1 : 2);
  const Index dim = tensor.extent(-1);
  reference::Matrix rows(tokens, heads * dim);
  for (Index token = 0; token < tokens; ++token) {
    for (Index head = 0; head < heads; ++head) {
      for (Index d = 0; d < dim; ++d) {
        const Index from = ((batch * heads + head) * tokens + token) * dim + d;
        rows.row(token)[static_cast<std::size_t>(head * dim + d)] =
            static_cast<double>(tensor.values[static_cast<std::size_t>(from)]);
      }
    }
  }
  return rows;
}

inline reference::Matrix below(const reference::Matrix& top, const reference::Matrix& bottom) {
  reference::Matrix all = bottom;
  all.rows += top.rows;
  all.cells.insert(all.cells.begin(), top.cells.begin(), top.cells.end());
  return all;
}

// The mask of sequence `batch` as something to add; its shape is [rows, keys], or has one or all
// heads in front.
inline std::function<double(Index, Index, Index)> bias_of(const Tensor& mask, Index batch) {
  const Index heads = mask.shape.size() == 4 ? mask.extent(1) : 1;
  const Index first = mask.shape.size() == 4 ? batch * heads : 0;
  return [&mask, heads, first](Index head, Index row, Index key) {
    const Index plane = first + (heads == 1 ? 0 : head);
    const Index at = (plane * mask.extent(-2) + row) * mask.extent(-1) + key;
    const auto number = static_cast<double>(mask.values[static_cast<std::size_t>(at)]);
    if (mask.type != "bool") return number;
    return number != 0 ? 0.0 : -std::numeric_limits<double>::infinity();
  };
}

// Shape    one entry per sequence of the batch
inline std::vector<AttentionCase> attention_cases(const Case& one) {
  const Tensor& q = one.at("Q");
  const bool flat = q.shape.size() == 3;
  std::vector<AttentionCase> result;
  for (Index batch = 0; batch < q.extent(0); ++batch) {
    AttentionCase c;
    c.how.heads = flat ? one.integer("q_num_heads", 0) : q.extent(1);
    c.how.kv_heads = flat ? one.integer("kv_num_heads", 0) : one.at("K").extent(1);
    c.how.causal = one.integer("is_causal", 0) != 0;
    c.how.softcap = one.number("softcap", 0);
    c.queries = token_rows(q, batch);
    c.keys = token_rows(one.at("K"), batch);
    c.values = token_rows(one.at("V"), batch);
    c.expected = token_rows(one.at("Y"), batch);
    if (const Tensor* past = one.find("past_key")) {
      c.how.past = past->extent(2);
      c.keys = below(token_rows(*past, batch), c.keys);
      c.values = below(token_rows(one.at("past_value"), batch), c.values);
    }
    if (const Tensor* mask = one.find("attn_mask")) c.how.bias = bias_of(*mask, batch);
    const auto key_dim = static_cast<double>(c.queries.columns / c.how.heads);
    c.how.scale = one.number("scale", 1 / std::sqrt(key_dim));
    result.push_back(std::move(c));
  }
  return result;
}

// Half-precision cases were computed in half precision, so they are only that exact.
inline double tolerance(const Case& one) { return one.at("Y").type == "float16" ? 1e-3 : 1e-6; }

}  // namespace decant::onnx
