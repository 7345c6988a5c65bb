// tests/model/embedding_test.cpp - hidden states and pooled vectors have the same bits alone, in
// ragged batches, in any chunks, stores and threads; and logits do not change beside them.
#include "law/bits.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/embedding.hpp>
#include <decant/model/score_head.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using F32 = codec::F32;
using Store = kv::Contiguous<F32>;
using model::EmbeddingOptions;
using model::Hidden;
using model::Logits;
using model::Pooling;
using Vectors = std::vector<std::vector<float>>;

class EmbeddingLaw : public testing::TestWithParam<trial::Family> {
 protected:
  EmbeddingLaw() {
    for (const Index length : {1, 40, 7, 16, 90, 2, 33}) {
      texts_.push_back(
          trial::random_tokens(decoder_.config(), length, static_cast<unsigned>(texts_.size())));
    }
    for (const auto& text : texts_) spans_.emplace_back(text);
  }

  Vectors alone(const EmbeddingOptions& options) {
    Vectors vectors;
    model::Workspace workspace(decoder_.config(), {.rows = 90, .hidden_rows = 90});
    for (const auto& text : texts_) {
      Store store(decoder_.config().geometry(), 90);
      vectors.push_back(embed(decoder_, store, workspace, text, options));
    }
    return vectors;
  }
  Vectors together(const EmbeddingOptions& options, const model::Limits& limits,
                   Executor& executor = serial_executor()) {
    std::vector<Store> stores;
    for (std::size_t at = 0; at < texts_.size(); ++at) {
      stores.emplace_back(decoder_.config().geometry(), 90);
    }
    model::Workspace workspace(decoder_.config(), limits, executor);
    return embed(decoder_, std::span(stores), workspace,
                 std::span<const std::span<const Token>>(spans_), options);
  }

  model::Decoder decoder_ = trial::decoder_of(GetParam());
  std::vector<std::vector<Token>> texts_;
  std::vector<std::span<const Token>> spans_;
};

TEST_P(EmbeddingLaw, OfARaggedBatchAreThoseOfEachTextAlone) {
  ThreadPool threads(3);
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const Vectors expected = alone({.pooling = pooling});
    for (const model::Limits& limits :
         {model::Limits{.rows = 300, .sequences = 7, .hidden_rows = 300},
          model::Limits{.rows = 13, .sequences = 3, .hidden_rows = 5},
          model::Limits{.rows = 1, .hidden_rows = 1}}) {
      EXPECT_TRUE(trial::same_rows(together({.pooling = pooling}, limits), expected));
      EXPECT_TRUE(trial::same_rows(together({.pooling = pooling}, limits, threads), expected));
    }
  }
}

TEST_P(EmbeddingLaw, HoldsInPagesAndRings) {
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const Vectors expected = alone({.pooling = pooling});
    kv::PagePool<F32> pool(decoder_.config().geometry(), 8, 16);
    model::Workspace workspace(decoder_.config(), {.rows = 24, .hidden_rows = 24});
    for (std::size_t at = 0; at < texts_.size(); ++at) {
      kv::Paged<F32> store(pool);
      EXPECT_TRUE(trial::same_bits(
          embed(decoder_, store, workspace, spans_[at], {.pooling = pooling}), expected[at]));
      const Position window = decoder_.config().widest_window();
      if (window == 0) continue;
      kv::Ring<F32> ring(decoder_.config().geometry(), window, 5);
      EXPECT_TRUE(trial::same_bits(
          embed(decoder_, ring, workspace, spans_[at], {.pooling = pooling}), expected[at]));
    }
  }
}

// Beside logits, and where a step runs in parts.
TEST_P(EmbeddingLaw, HiddenStatesChangeNoLogit) {
  const std::vector<Token>& text = texts_[1];
  const auto run = [&](auto& store, Logits logits, Hidden hidden) {
    model::Workspace workspace(decoder_.config(),
                               {.rows = 40, .logit_rows = 40, .hidden_rows = 40});
    model::Batch<std::remove_reference_t<decltype(store)>> batch;
    batch.add(store, text, logits, nullptr, hidden);
    decoder_.step(batch, workspace);
    std::pair<Vectors, Vectors> result;
    for (Index row = 0; row < batch.logit_rows(); ++row) {
      const auto of_row = workspace.logits(row);
      result.first.emplace_back(of_row.begin(), of_row.end());
    }
    for (Index row = 0; row < batch.hidden_rows(); ++row) {
      const auto of_row = workspace.hidden(row);
      result.second.emplace_back(of_row.begin(), of_row.end());
    }
    EXPECT_THROW(workspace.hidden(batch.hidden_rows()), std::invalid_argument);
    return result;
  };
  const auto contiguous = [&](Logits logits, Hidden hidden) {
    Store store(decoder_.config().geometry(), 40);
    return run(store, logits, hidden);
  };
  const auto [logits, none] = contiguous(Logits::all, Hidden::none);
  EXPECT_TRUE(none.empty());
  const auto [again, hidden] = contiguous(Logits::all, Hidden::all);
  EXPECT_TRUE(trial::same_rows(again, logits));
  EXPECT_EQ(hidden.size(), 40u);
  EXPECT_TRUE(trial::same_rows(contiguous(Logits::none, Hidden::all).second, hidden));
  const auto [last_logits, last] = contiguous(Logits::last, Hidden::last);
  EXPECT_TRUE(trial::same_rows(last_logits, Vectors{logits.back()}));
  EXPECT_TRUE(trial::same_rows(last, Vectors{hidden.back()}));
  const Position window = decoder_.config().widest_window();
  if (window == 0) return;
  kv::Ring<F32> ring(decoder_.config().geometry(), window, 7);
  const auto [in_parts, hidden_in_parts] = run(ring, Logits::all, Hidden::all);
  EXPECT_TRUE(trial::same_rows(in_parts, logits));
  EXPECT_TRUE(trial::same_rows(hidden_in_parts, hidden));
  kv::Ring<F32> other(decoder_.config().geometry(), window, 7);
  EXPECT_TRUE(
      trial::same_rows(run(other, Logits::none, Hidden::last).second, Vectors{hidden.back()}));
}

// A model with a window in every layer, which rings can hold.
trial::Family ringed() {
  trial::Family family = trial::windowed();
  family.name = "Ringed";
  family.config.windows.assign(family.config.windows.size(), 8);
  return family;
}
std::vector<trial::Family> families() {
  std::vector<trial::Family> all = trial::families();
  all.push_back(ringed());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, EmbeddingLaw, testing::ValuesIn(families()),
                         [](const auto& one) { return std::string(one.param.name); });

class EmbeddingTest : public testing::Test {
 protected:
  model::Decoder decoder_ = trial::decoder_of(trial::llama());
  Store store_{decoder_.config().geometry(), 20};
  std::vector<Token> text_ = trial::random_tokens(decoder_.config(), 9, 1);
};

TEST_F(EmbeddingTest, HasLengthOneUnlessAskedOtherwise) {
  model::Workspace workspace(decoder_.config(), {.rows = 9, .hidden_rows = 9});
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const auto vector = embed(decoder_, store_, workspace, text_, {.pooling = pooling});
    const auto plain =
        embed(decoder_, store_, workspace, text_, {.pooling = pooling, .normalise = false});
    double squares = 0, dot = 0, plain_squares = 0;
    for (std::size_t n = 0; n < vector.size(); ++n) {
      squares += double{vector[n]} * vector[n];
      plain_squares += double{plain[n]} * plain[n];
      dot += double{vector[n]} * plain[n];
    }
    EXPECT_NEAR(squares, 1, 1e-6);
    EXPECT_NEAR(dot, std::sqrt(plain_squares), 1e-5);
    EXPECT_GT(std::abs(plain_squares - 1), 0.01);
  }
}

TEST_F(EmbeddingTest, FollowsItsAdapter) {
  const auto adapter = std::make_shared<model::Adapter>(trial::adapter_of(decoder_.config(), 3));
  model::Workspace workspace(decoder_.config(), {.rows = 9, .hidden_rows = 1});
  EXPECT_NE(embed(decoder_, store_, workspace, text_, {.adapter = adapter}),
            embed(decoder_, store_, workspace, text_));
}

TEST_F(EmbeddingTest, IsRefusedForTextsAndWorkspacesThatCannotHaveOne) {
  model::Workspace workspace(decoder_.config(), {.rows = 9, .hidden_rows = 9});
  model::Workspace without(decoder_.config(), {.rows = 9});
  EXPECT_THROW(embed(decoder_, store_, without, text_), std::invalid_argument);
  EXPECT_THROW(embed(decoder_, store_, workspace, std::span<const Token>()), std::invalid_argument);
  EXPECT_THROW(embed(decoder_, store_, workspace, std::vector<Token>{-1}), std::invalid_argument);
  EXPECT_THROW(embed(decoder_, store_, workspace, std::vector<Token>(21, 1)), CacheFull);
  EXPECT_THROW(model::Workspace(decoder_.config(), {.hidden_rows = -1}), std::invalid_argument);
  model::Batch<Store> batch;
  store_.rewind(0);
  batch.add(store_, text_, Logits::none, nullptr, Hidden::last);
  EXPECT_THROW(decoder_.step(batch, without), std::invalid_argument);
}

TEST(ScoreHead, GivesAScoreForEachLabel) {
  const model::ScoreHead head = {.labels = 2, .weight = {1, 2, 3, -1, 0, 0.5f}};
  EXPECT_EQ(model::scores(head, std::vector<float>{1, 10, 100}), (std::vector<float>{321, 49}));
  EXPECT_TRUE(model::scores({}, std::vector<float>{1, 2}).empty());
  EXPECT_THROW(model::scores(head, std::vector<float>{1, 10}), std::invalid_argument);
}

}  // namespace
