// tests/reference/attention.hpp - grouped-query attention as three loops, in double.
//
// Query head h reads key and value head h / (heads / kv_heads). A key that may not be seen is
// left out of the list of scores, rather than being given a small score.
//
// Source      Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245
#pragma once

#include "reference/matrix.hpp"
#include "reference/softmax.hpp"

#include <cmath>
#include <functional>

namespace decant::reference {

// Units    positions and window count tokens; key j of the list stands at position j
struct Attention {
  Index heads = 1;
  Index kv_heads = 1;
  double scale = 1;
  double softcap = 0;   // score -> softcap * tanh(score / softcap); 0 means none
  bool causal = true;   // row r stands at position past + r, and sees no later key
  Position past = 0;    // may be negative: such rows see nothing
  Position window = 0;  // keys seen, the row's own included; 0 means unlimited
  std::function<double(Index head, Index row, Index key)> bias = {};  // added last; -inf hides
  Vector sinks = {};      // learned sinks: a score of each head beside those of its keys, or empty
  Index sink_tokens = 0;  // first keys that rows see beside their window, by other queries
};

// Shape    output [rows, heads * value_dim]; log_sum_exp [rows, heads]
struct Attended {
  Matrix output;
  Matrix log_sum_exp;
};

inline bool sees(const Attention& how, Index row, Index key) {
  if (!how.causal) return true;
  const Position position = how.past + row;
  return key <= position &&
         (how.window == 0 || key > position - how.window || key < how.sink_tokens);
}

inline double score(const Attention& how, std::span<const double> query,
                    std::span<const double> key) {
  const double plain = how.scale * dot(query, key);
  return how.softcap == 0 ? plain : how.softcap * std::tanh(plain / how.softcap);
}

// The columns of one head out of a row of several.
template <class Number>
std::span<Number> head_of(std::span<Number> row, Index head, Index heads) {
  const std::size_t dim = row.size() / static_cast<std::size_t>(heads);
  return row.subspan(static_cast<std::size_t>(head) * dim, dim);
}

// Shape    queries [rows, heads * key_dim]; keys [positions, kv_heads * key_dim];
//          values [positions, kv_heads * value_dim]; sink_queries as queries, if there are
//          sink tokens
inline Attended attend(const Attention& how, const Matrix& queries, const Matrix& keys,
                       const Matrix& values, const Matrix& sink_queries = {}) {
  Attended result{Matrix(queries.rows, values.columns / how.kv_heads * how.heads),
                  Matrix(queries.rows, how.heads)};
  for (Index row = 0; row < queries.rows; ++row) {
    for (Index head = 0; head < how.heads; ++head) {
      const Index kv_head = head / (how.heads / how.kv_heads);
      Vector scores(static_cast<std::size_t>(keys.rows), kMinusInfinity);
      for (Index key = 0; key < keys.rows; ++key) {
        if (!sees(how, row, key)) continue;
        const auto query =
            head_of((key < how.sink_tokens ? sink_queries : queries).row(row), head, how.heads);
        double& seen = scores[static_cast<std::size_t>(key)];
        seen = score(how, query, head_of(keys.row(key), kv_head, how.kv_heads));
        if (how.bias) seen += how.bias(head, row, key);
      }
      if (!how.sinks.empty()) scores.push_back(how.sinks[static_cast<std::size_t>(head)]);
      const Vector weights = softmax(scores);
      result.log_sum_exp.row(row)[static_cast<std::size_t>(head)] = log_sum_exp(scores);
      const auto output = head_of(result.output.row(row), head, how.heads);
      for (Index key = 0; key < keys.rows; ++key) {
        const double weight = weights[static_cast<std::size_t>(key)];
        if (weight == 0) continue;  // an unseen value may be NaN
        const auto value = head_of(values.row(key), kv_head, how.kv_heads);
        for (std::size_t d = 0; d < value.size(); ++d) output[d] += weight * value[d];
      }
    }
  }
  return result;
}

}  // namespace decant::reference
