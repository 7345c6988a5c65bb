// decant/model/embedding.hpp - one vector for a text.
//
// A text's vector is made of the hidden states of its rows: their mean, or that of the last token.
// Rows are added in their order, in double, so that the vector has the same bits alone, in a ragged
// batch and in any chunks.
//
// Source      Reimers and Gurevych 2019, arXiv:1908.10084 (mean pooling); Hugging Face
// transformers,
//             *ForSequenceClassification (the head reads the last token)
// Tested by   tests/model/embedding_test.cpp, tests/checkpoints/embedding_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::model {

enum class Pooling { mean, last };  // of all tokens, or the last one alone

struct EmbeddingOptions {
  Pooling pooling = Pooling::last;
  bool normalise = true;  // to length 1
  std::shared_ptr<const Adapter> adapter = {};
};

namespace detail {

// The vector of a text while its rows arrive.
class PooledRows {
 public:
  PooledRows(const EmbeddingOptions& options, Index hidden_size)
      : mean_(options.pooling == Pooling::mean),
        normalise_(options.normalise),
        sums_(static_cast<std::size_t>(hidden_size)) {}

  void add(std::span<const float> hidden) {
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      sums_[n] = mean_ ? sums_[n] + static_cast<double>(hidden[n]) : static_cast<double>(hidden[n]);
    }
    count_ += 1;
  }

  std::vector<float> finish() const {
    double divisor = mean_ ? static_cast<double>(count_) : 1.0;
    if (normalise_) {
      double squares = 0;
      for (double sum : sums_) squares += sum * sum;
      divisor = squares > 0 ? std::sqrt(squares) : 1.0;
    }
    std::vector<float> result;
    for (double sum : sums_) result.push_back(static_cast<float>(sum / divisor));
    return result;
  }

 private:
  bool mean_;
  bool normalise_;
  std::vector<double> sums_;
  Index count_ = 0;
};

// Texts on their way through steps.
template <kv::Store S>
class Embedding {
 public:
  Embedding(const Decoder& decoder, std::span<S> stores, Workspace& workspace,
            std::span<const std::span<const Token>> texts, const EmbeddingOptions& options)
      : decoder_(decoder),
        stores_(stores),
        workspace_(workspace),
        texts_(texts),
        options_(options),
        pooled_(texts.size(), PooledRows(options, decoder.config().hidden_size)) {}

  std::vector<std::vector<float>> run() {
    while (fill()) {
      decoder_.step(batch_, workspace_);
      take();
    }
    std::vector<std::vector<float>> result;
    for (const PooledRows& text : pooled_) result.push_back(text.finish());
    return result;
  }

 private:
  struct Part {
    std::size_t text;
    Index hidden_rows;
  };

  // Plans the next tokens of the first texts that have some; false if none has.
  bool fill() {
    const Limits& limits = workspace_.limits();
    batch_.clear();
    parts_.clear();
    for (std::size_t at = 0; at < texts_.size(); ++at) {
      const auto fed = static_cast<std::size_t>(stores_[at].end());
      const auto rest = texts_[at].subspan(fed);
      const Index hidden = limits.hidden_rows - batch_.hidden_rows();
      Index rows = std::min({std::ssize(rest), stores_[at].chunk(), limits.rows - batch_.rows()});
      if (options_.pooling == Pooling::mean) rows = std::min(rows, hidden);
      if (rest.empty()) continue;
      if (rows == 0 || hidden == 0 || std::ssize(parts_) == limits.sequences) break;
      const bool last = rows == std::ssize(rest);
      const Hidden wanted = options_.pooling == Pooling::mean ? Hidden::all
                            : last                            ? Hidden::last
                                                              : Hidden::none;
      const Index before = batch_.hidden_rows();
      batch_.add(stores_[at], rest.first(static_cast<std::size_t>(rows)), Logits::none,
                 options_.adapter.get(), wanted);
      parts_.push_back({at, batch_.hidden_rows() - before});
    }
    return !parts_.empty();
  }

  void take() {
    Index row = 0;
    for (const Part& part : parts_) {
      for (Index n = 0; n < part.hidden_rows; ++n) pooled_[part.text].add(workspace_.hidden(row++));
    }
  }

  const Decoder& decoder_;
  std::span<S> stores_;
  Workspace& workspace_;
  std::span<const std::span<const Token>> texts_;
  const EmbeddingOptions& options_;
  Batch<S> batch_;
  std::vector<Part> parts_;
  std::vector<PooledRows> pooled_;
};

}  // namespace detail

// The vectors of texts, many of which share a step. Each has a store of its own, which is emptied
// first and then holds the text.
//
// Shape    [texts][hidden_size]
// Errors   std::invalid_argument (another number of stores, a text without tokens, a workspace
//          without hidden_rows, and as Decoder::step()), CacheFull; the stores then hold beginnings
//          of the texts
// Cost     as many steps as rows, hidden_rows (of every token for a mean, else of every text) and
//          sequences of the workspace ask for; no logits are computed
// Threads  stores and workspace belong to the call until it returns
template <kv::Store S>
std::vector<std::vector<float>> embed(const Decoder& decoder, std::span<S> stores,
                                      Workspace& workspace,
                                      std::span<const std::span<const Token>> texts,
                                      const EmbeddingOptions& options = {}) {
  expects(stores.size() == texts.size(), "model::embed: ", stores.size(), " stores for ",
          texts.size(), " texts");
  expects(workspace.limits().hidden_rows > 0,
          "model::embed: a workspace whose limits have no hidden_rows");
  for (std::span<const Token> text : texts) {
    expects(!text.empty(), "model::embed: a text without tokens");
  }
  for (S& store : stores) store.rewind(0);
  return detail::Embedding<S>(decoder, stores, workspace, texts, options).run();
}

// The vector of one text.
template <kv::Store S>
std::vector<float> embed(const Decoder& decoder, S& store, Workspace& workspace,
                         std::span<const Token> text, const EmbeddingOptions& options = {}) {
  return embed(decoder, std::span<S>(&store, 1), workspace,
               std::span<const std::span<const Token>>(&text, 1), options)
      .front();
}

}  // namespace decant::inline DECANT_ABI::model
