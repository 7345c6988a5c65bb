// tests/reference/decoder.hpp - the whole decoder in double: all positions at once, no cache.
//
// This is the model as papers write it: every layer sees the complete list of tokens, and nothing
// is cached between calls. Whatever the library does with a cache must give these logits.
//
// Source      Touvron et al. 2023, arXiv:2302.13971 (the gated RMS block); Radford et al. 2019,
//             "Language models are unsupervised multitask learners" (the LayerNorm block)
#pragma once

#include "reference/activation.hpp"
#include "reference/attention.hpp"
#include "reference/model.hpp"
#include "reference/norm.hpp"
#include "reference/rope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace decant::reference {

class Decoder {
 public:
  explicit Decoder(Model model) : model_(std::move(model)) {}

  const Model& model() const { return model_; }

  // Shape    the result is [tokens, vocabulary]: row i is what follows token i
  Matrix logits(std::span<const Token> tokens) const {
    Matrix x = embed(tokens);
    for (Index i = 0; i < model_.config.layers; ++i) {
      const Layer& layer = model_.layers[static_cast<std::size_t>(i)];
      add(x, attention(layer, model_.config.window(i), normed(layer.attention_norm, x)));
      add(x, feed_forward(layer, normed(layer.feed_forward_norm, x)));
    }
    const Linear tied{model_.output.empty() ? model_.embedding : model_.output.matrix,
                      model_.output.bias};
    return apply_rows(tied, normed(model_.output_norm, x));
  }

  // `count` tokens after the prompt, each the likeliest; the lowest id among equals.
  std::vector<Token> greedy(std::span<const Token> prompt, Index count) const {
    std::vector<Token> tokens(prompt.begin(), prompt.end());
    for (Index i = 0; i < count; ++i) {
      const Matrix all = logits(tokens);
      const auto last = all.row(all.rows - 1);
      tokens.push_back(
          static_cast<Token>(std::max_element(last.begin(), last.end()) - last.begin()));
    }
    tokens.erase(tokens.begin(), tokens.begin() + std::ssize(prompt));
    return tokens;
  }

 private:
  static void add(Matrix& x, const Matrix& y) {
    for (std::size_t i = 0; i < x.cells.size(); ++i) x.cells[i] += y.cells[i];
  }

  Matrix embed(std::span<const Token> tokens) const {
    Matrix x(std::ssize(tokens), model_.config.hidden_size);
    for (Index i = 0; i < x.rows; ++i) {
      const auto from = model_.embedding.row(tokens[static_cast<std::size_t>(i)]);
      for (std::size_t d = 0; d < from.size(); ++d) {
        x.row(i)[d] = from[d] * static_cast<double>(model_.config.embedding_scale);
        if (!model_.positions.empty()) x.row(i)[d] += model_.positions.row(i)[d];
      }
    }
    return x;
  }

  Vector normed(const NormWeights& norm, std::span<const double> x) const {
    const auto epsilon = static_cast<double>(model_.config.norm_epsilon);
    return model_.config.norm == model::Norm::rms ? rms_norm(x, norm.weight, epsilon)
                                                  : layer_norm(x, norm, epsilon);
  }
  Matrix normed(const NormWeights& norm, const Matrix& x) const {
    Matrix y(x.rows, x.columns);
    for (Index i = 0; i < x.rows; ++i) {
      const Vector row = normed(norm, x.row(i));
      std::copy(row.begin(), row.end(), y.row(i).begin());
    }
    return y;
  }

  // Normalises and rotates every head of every row; row i stands at position min(i, last).
  void finish_heads(Matrix& x, Index heads, const NormWeights& norm,
                    Position last = std::numeric_limits<Position>::max()) const {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index h = 0; h < heads; ++h) {
        const auto head = head_of(x.row(i), h, heads);
        if (!norm.empty()) {
          const Vector row = normed(norm, head);
          std::copy(row.begin(), row.end(), head.begin());
        }
        if (model_.config.rope) rotate(head, *model_.config.rope, std::min(i, last));
      }
    }
  }

  Matrix attention(const Layer& layer, Position window, const Matrix& x) const {
    const model::Config& config = model_.config;
    Matrix queries = apply_rows(layer.query, x);
    Matrix keys = apply_rows(layer.key, x);
    const Index sink_tokens = window > 0 ? config.sink_tokens : 0;
    Matrix sink_queries = queries;
    finish_heads(sink_queries, config.heads, layer.query_norm, sink_tokens + window - 1);
    finish_heads(queries, config.heads, layer.query_norm);
    finish_heads(keys, config.kv_heads, layer.key_norm);
    const double scale = config.score_scale != 0.0f
                             ? static_cast<double>(config.score_scale)
                             : 1 / std::sqrt(static_cast<double>(config.key_dim));
    const Attention how{.heads = config.heads,
                        .kv_heads = config.kv_heads,
                        .scale = scale,
                        .softcap = 0,
                        .causal = true,
                        .past = 0,
                        .window = window,
                        .bias = {},
                        .sinks = {},
                        .sink_tokens = sink_tokens};
    return apply_rows(layer.attention_output,
                      attend(how, queries, keys, apply_rows(layer.value, x), sink_queries).output);
  }

  double activated(double x) const {
    switch (model_.config.activation) {
      case model::Activation::silu:
        return silu(x);
      case model::Activation::gelu:
        return gelu(x);
      case model::Activation::gelu_tanh:
        return gelu_tanh(x);
    }
    return std::nan("");
  }

  Matrix feed_forward(const Layer& layer, const Matrix& x) const {
    Matrix inner = apply_rows(layer.up, x);
    if (model_.config.gated) {
      const Matrix gate = apply_rows(layer.gate, x);
      for (std::size_t i = 0; i < inner.cells.size(); ++i) {
        inner.cells[i] *= activated(gate.cells[i]);
      }
    } else {
      for (double& number : inner.cells) number = activated(number);
    }
    return apply_rows(layer.down, inner);
  }

  Model model_;
};

}  // namespace decant::reference
