// tests/model/step_test.cpp - a step against the reference, and refusals that change nothing.
#include <decant/model/decoder.hpp>

#include "law/models.hpp"
#include "reference/decoder.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using codec::F32;
using Store = kv::Contiguous<F32>;
using model::Logits;
using trial::Rows;
using trial::Runner;

// Weights have few bits, so every format holds them; logits of size 1 and two layers of roundings.
TEST(Step, MatchesTheReferenceForEveryFamily) {
  std::vector<trial::Family> families = trial::families();
  families.push_back(trial::streaming());
  for (const trial::Family& family : families) {
    SCOPED_TRACE(family.name);
    const reference::Model random = reference::random_model(family.config, 5, family.parts);
    const std::vector<Token> tokens = trial::random_tokens(family.config, 90, 1);
    const reference::Matrix exact = reference::Decoder(random).logits(tokens);
    for (codec::Type type : {codec::Type::f32, codec::Type::bf16, codec::Type::f16}) {
      const model::Decoder decoder(family.config, reference::to_weights(random, type));
      Runner<F32> run(decoder, 90);
      const Rows rows =
          run.feed_in_chunks(tokens, [](Index left) { return std::min<Index>(40, left); });
      for (std::size_t row = 0; row < rows.size(); ++row) {
        ASSERT_LT(reference::max_difference(rows[row], exact.row(static_cast<Index>(row))), 2e-5)
            << codec::name(type) << ", row " << row;
      }
    }
  }
}

// A 16-bit cache rounds keys and values once: an error of 2^-9 or 2^-12 of each.
TEST(Step, MatchesTheReferenceWithinTheRoundingOfTheCache) {
  const trial::Family family = trial::llama();
  const model::Decoder decoder = trial::decoder_of(family);
  const std::vector<Token> tokens = trial::random_tokens(family.config, 60, 1);
  const Rows exact = trial::decoded<F32>(decoder, tokens);
  const auto worst = [&](const Rows& rows) {
    double difference = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      difference = std::max(difference, reference::max_difference(rows[row], exact[row]));
    }
    return difference;
  };
  const double bf16 = worst(trial::decoded<codec::BF16>(decoder, tokens));
  const double f16 = worst(trial::decoded<codec::F16>(decoder, tokens));
  EXPECT_LT(bf16, 32 * 0x1p-9);
  EXPECT_LT(f16, 32 * 0x1p-12);
  EXPECT_GT(bf16, f16);
  EXPECT_GT(f16, 0);
}

TEST(Step, GivesLogitsOfTheRowsThatAsked) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 9, 1);
  const Rows all = trial::decoded<F32>(decoder, tokens);
  Store a(decoder.config().geometry(), 9);
  Store b(decoder.config().geometry(), 9);
  Store c(decoder.config().geometry(), 9);
  model::Workspace workspace(decoder.config(), {.rows = 20, .logit_rows = 5, .sequences = 3});
  model::Batch<Store> batch;
  batch.add(a, std::span(tokens).first(4));
  batch.add(b, std::span(tokens).first(5), Logits::none);
  batch.add(c, std::span(tokens).first(3), Logits::all);
  decoder.step(batch, workspace);
  EXPECT_TRUE(trial::same_bits(all[3], workspace.logits(0)));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(trial::same_bits(all[i], workspace.logits(1 + static_cast<Index>(i))));
  }
  EXPECT_EQ(a.end(), 4);
  EXPECT_EQ(b.end(), 5);
  EXPECT_EQ(c.end(), 3);
  EXPECT_THROW(workspace.logits(5), std::invalid_argument);
  EXPECT_THROW(workspace.logits(-1), std::invalid_argument);
}

// Padding does not exist: a shorter sequence has positions and rows of its own.
TEST(Step, GivesUnequalSequencesThePositionsTheyHaveAlone) {
  const reference::Model random = reference::random_model(trial::llama().config, 5);
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  std::vector<Token> a = {5, 6, 7, 8, 9};
  std::vector<Token> b = {11, 12};
  Store store_a(decoder.config().geometry(), 16);
  Store store_b(decoder.config().geometry(), 16);
  model::Workspace workspace(decoder.config(), {.rows = 8, .logit_rows = 2, .sequences = 2});
  model::Batch<Store> batch;
  batch.add(store_a, a);
  batch.add(store_b, b);
  for (int step = 0; step < 6; ++step) {
    decoder.step(batch, workspace);
    batch.clear();
    Index row = 0;
    for (auto* tokens : {&a, &b}) {
      const reference::Matrix exact = reference::Decoder(random).logits(*tokens);
      const std::span<const float> logits = workspace.logits(row++);
      EXPECT_LT(reference::max_difference(logits, exact.row(exact.rows - 1)), 2e-5);
      tokens->push_back(static_cast<Token>(step));
    }
    batch.add(store_a, {&a.back(), 1});
    batch.add(store_b, {&b.back(), 1});
  }
  EXPECT_EQ(store_a.end(), 10);
  EXPECT_EQ(store_b.end(), 7);
}

// One step that must fail, between two that show that nothing has changed.
class RefusedStep : public testing::Test {
 protected:
  RefusedStep()
      : tokens_(trial::random_tokens(decoder_.config(), 12, 1)),
        expected_(trial::decoded<F32>(decoder_, tokens_)),
        first_(decoder_.config().geometry(), 12),
        second_(decoder_.config().geometry(), 6),
        workspace_(decoder_.config(), {.rows = 10, .logit_rows = 3, .sequences = 2}) {
    batch_.add(first_, std::span(tokens_).first(5));
    batch_.add(second_, std::span(tokens_).first(4));
    decoder_.step(batch_, workspace_);
    batch_.clear();
  }

  template <class Error>
  void expect_refused() {
    EXPECT_THROW(decoder_.step(batch_, workspace_), Error);
    EXPECT_EQ(first_.end(), 5);
    EXPECT_EQ(second_.end(), 4);
    batch_.clear();
    batch_.add(first_, std::span(tokens_).subspan(5, 1));
    batch_.add(second_, std::span(tokens_).subspan(4, 2));
    decoder_.step(batch_, workspace_);
    EXPECT_TRUE(trial::same_bits(expected_[5], workspace_.logits(0)));
    EXPECT_TRUE(trial::same_bits(expected_[5], workspace_.logits(1)));
  }

  model::Decoder decoder_ = trial::decoder_of(trial::llama());
  std::vector<Token> tokens_;
  Rows expected_;
  Store first_;
  Store second_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

TEST_F(RefusedStep, WhenAStoreIsFull) {
  batch_.add(first_, std::span(tokens_).subspan(5, 3));
  batch_.add(second_, std::span(tokens_).subspan(4, 3));
  expect_refused<CacheFull>();
}

TEST_F(RefusedStep, WhenATokenIsOutsideTheVocabulary) {
  for (Token token : {-1, 41, 1 << 30}) {
    batch_.clear();
    batch_.add(first_, std::vector<Token>{3, token});
    EXPECT_THROW(decoder_.step(batch_, workspace_), std::invalid_argument);
  }
  expect_refused<std::invalid_argument>();
}

TEST_F(RefusedStep, WithMoreRowsThanTheWorkspaceHas) {
  batch_.add(second_, std::span(tokens_).first(4));
  batch_.add(first_, std::span(tokens_).first(7));
  expect_refused<std::invalid_argument>();
}

TEST_F(RefusedStep, WithMoreLogitsThanTheWorkspaceHas) {
  batch_.add(first_, std::span(tokens_).first(4), Logits::all);
  expect_refused<std::invalid_argument>();
}

TEST_F(RefusedStep, WithMoreSequencesThanTheWorkspaceHas) {
  Store third(decoder_.config().geometry(), 6);
  for (Store* store : {&first_, &second_, &third}) batch_.add(*store, std::span(tokens_).first(1));
  expect_refused<std::invalid_argument>();
  EXPECT_EQ(third.end(), 0);
}

TEST_F(RefusedStep, WithAStoreOfAnotherGeometry) {
  kv::Geometry geometry = decoder_.config().geometry();
  geometry.heads += 1;
  Store other(geometry, 6);
  batch_.add(first_, std::span(tokens_).first(1));
  batch_.add(other, std::span(tokens_).first(1));
  expect_refused<std::invalid_argument>();
}

TEST_F(RefusedStep, InAWorkspaceOfAnotherModel) {
  model::Config config = decoder_.config();
  config.windows = {4, 4};
  model::Workspace other(config, workspace_.limits());
  batch_.add(first_, std::span(tokens_).first(1));
  EXPECT_THROW(decoder_.step(batch_, other), std::invalid_argument);
  batch_.clear();
  expect_refused<std::invalid_argument>();
}

TEST_F(RefusedStep, OfNoRows) { expect_refused<std::invalid_argument>(); }

TEST(Step, RefusesPositionsBeyondTheLearnedOnes) {
  trial::Family family = trial::gpt2();
  family.config.max_positions = 7;
  const model::Decoder decoder = trial::decoder_of(family);
  const std::vector<Token> tokens = trial::random_tokens(family.config, 8, 1);
  Runner<F32> run(decoder, 8);
  run.feed(std::span(tokens).first(5));
  EXPECT_THROW(run.feed(std::span(tokens).first(3)), std::invalid_argument);
  EXPECT_EQ(run.store().end(), 5);
  run.feed(std::span(tokens).first(2));
  EXPECT_THROW(run.feed(std::span(tokens).first(1)), std::invalid_argument);
  EXPECT_EQ(run.store().end(), 7);
}

TEST(Step, GoesBeyondTheModelsPositionsIfTheyAreRotary) {
  trial::Family family = trial::llama();
  family.config.max_positions = 7;
  const model::Decoder decoder = trial::decoder_of(family);
  EXPECT_TRUE(trial::all_finite(
      trial::decoded<F32>(decoder, trial::random_tokens(family.config, 20, 1)).back()));
}

TEST(Workspace, HasTheLogitsOfTheLastStepAlone) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  Store store(decoder.config().geometry(), 8);
  model::Workspace workspace(decoder.config(), {.rows = 4, .logit_rows = 3});
  EXPECT_THROW(workspace.logits(0), std::invalid_argument);
  model::Batch<Store> batch;
  const std::vector<Token> tokens = trial::random_tokens(decoder.config(), 3, 1);
  batch.add(store, tokens, Logits::all);
  decoder.step(batch, workspace);
  EXPECT_NO_THROW(workspace.logits(2));
  for (const Logits wanted : {Logits::last, Logits::none}) {
    batch.clear();
    batch.add(store, {tokens.data(), 1}, wanted);
    decoder.step(batch, workspace);
    EXPECT_THROW(workspace.logits(wanted == Logits::last ? 1 : 0), std::invalid_argument);
  }
}

TEST(Workspace, RefusesLimitsBelowOne) {
  const model::Config config = trial::small_config();
  EXPECT_THROW(model::Workspace(config, {.rows = 0}), std::invalid_argument);
  EXPECT_THROW(model::Workspace(config, {.logit_rows = 0}), std::invalid_argument);
  EXPECT_THROW(model::Workspace(config, {.sequences = -1}), std::invalid_argument);
}

}  // namespace
