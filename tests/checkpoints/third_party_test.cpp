// tests/checkpoints/third_party_test.cpp - checkpoints and reference outputs that others have made.
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/model/decoder.hpp>

#include "model/files.hpp"
#include "model/run.hpp"
#include "reference/decoder.hpp"
#include "reference/from_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using trial::Rows;

model::Decoder load(const std::filesystem::path& folder) {
  checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(folder);
  return {std::move(checkpoint.config), std::move(checkpoint.weights)};
}

nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

// Token lists and the double-precision logits after each of their tokens.
class TinyModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = trial::kSharedData / "tiny" / GetParam();
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no checkpoint in " << folder_;
    const nlohmann::json expected = read_json(folder_ / "expected.json");
    sequences_ = expected["sequences"];
    logits_ = expected["logits"];
    ASSERT_EQ(sequences_.size(), 3u);
    ASSERT_EQ(logits_.size(), 3u);
  }

  std::filesystem::path folder_;
  std::vector<std::vector<Token>> sequences_;
  std::vector<std::vector<std::vector<double>>> logits_;
};

TEST_P(TinyModel, GivesTheReferenceLogitsInEveryCut) {
  const model::Decoder decoder = load(folder_);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    ASSERT_EQ(logits_[i].size(), sequences_[i].size());
    for (std::size_t chunk : {1u, 3u, 5u, 16u}) {
      const Rows rows = trial::chunked(decoder, sequences_[i], chunk);
      EXPECT_LE(trial::worst_difference(rows, logits_[i]), 1e-5) << "chunks of " << chunk;
    }
    const Rows rows = trial::recomputed(decoder, sequences_[i]);
    EXPECT_LE(trial::worst_difference(rows, logits_[i]), 1e-5) << "recomputed";
  }
}

TEST_P(TinyModel, IsWhatTheReferenceComputesToo) {
  const model::Decoder decoder = load(folder_);
  const reference::Decoder reference(reference::from_weights(decoder.config(), decoder.weights()));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const reference::Matrix logits = reference.logits(sequences_[i]);
    for (Index row = 0; row < logits.rows; ++row) {
      const auto& expected = logits_[i][static_cast<std::size_t>(row)];
      EXPECT_LE(reference::max_difference(logits.row(row), expected), 1e-6) << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TinyModel,
                         ::testing::Values("llama", "llama-sharded", "qwen2", "mistral", "gemma",
                                           "gpt2"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TinyRandomGpt2, GivesTheReferenceTokens) {
  const std::filesystem::path folder = trial::kSharedData / "tiny-random-gpt2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no checkpoint in " << folder;
  const model::Decoder decoder = load(folder);
  const nlohmann::json expected = read_json(folder / "expected_greedy.json")["greedy"];
  for (std::size_t i = 0; i < expected["prompts"].size(); ++i) {
    const std::vector<Token> prompt = expected["prompts"][i];
    const std::vector<Token> whole = expected["sequences"][i];
    const Index count = std::ssize(whole) - std::ssize(prompt);
    const std::vector<Token> answer(whole.begin() + std::ssize(prompt), whole.end());
    EXPECT_EQ(trial::greedy(decoder, prompt, count), answer);
    EXPECT_EQ(trial::greedy_recomputed(decoder, prompt, count), answer);
  }
}

// A trained model: file names, and how many of the tokens in the file were the prompt.
class TinyStories : public ::testing::TestWithParam<std::pair<const char*, std::size_t>> {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = trial::kSharedData / "tinystories-656k";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no checkpoint in " << folder;
    decoder_.emplace(load(folder));
    const std::string name = GetParam().first;
    tokens_ = trial::read_tokens(folder / (name + ".tokens.txt"));
    logits_ = trial::read_logits(folder / (name + ".logits.f32"), decoder_->config().vocabulary);
    ASSERT_GE(tokens_.size(), 139u);
    ASSERT_EQ(logits_.size(), 20u);
    prompt_.assign(tokens_.begin(), tokens_.begin() + static_cast<Index>(GetParam().second));
    answer_.assign(tokens_.begin() + static_cast<Index>(GetParam().second), tokens_.end());
  }

  std::optional<model::Decoder> decoder_;
  std::vector<Token> tokens_, prompt_, answer_;
  Rows logits_;
};

TEST_P(TinyStories, GivesTheReferenceLogitsInEveryCut) {
  for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{64}, tokens_.size()}) {
    const Rows rows = trial::chunked(*decoder_, tokens_, chunk);
    EXPECT_LE(trial::worst_difference(rows, logits_), 2e-4) << "chunks of " << chunk;
    for (std::size_t i = prompt_.size(); i < tokens_.size(); ++i) {
      ASSERT_EQ(trial::argmax(rows[i - 1]), tokens_[i]) << "token " << i;
    }
  }
}

TEST_P(TinyStories, GivesTheReferenceTokensToTheEnd) {
  trial::expect_greedy(*decoder_, prompt_, answer_);
}

TEST_P(TinyStories, IsWhatTheReferenceComputesToo) {
  const reference::Decoder reference(
      reference::from_weights(decoder_->config(), decoder_->weights()));
  const reference::Matrix expected = reference.logits(tokens_);
  const Rows rows = trial::chunked(*decoder_, tokens_, tokens_.size());
  for (Index i = 0; i < expected.rows; ++i) {
    EXPECT_LE(reference::max_difference(rows[static_cast<std::size_t>(i)], expected.row(i)), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Prompts, TinyStories,
                         ::testing::Values(std::pair("once", std::size_t{6}),
                                           std::pair("empty", std::size_t{1})),
                         [](const auto& one) { return std::string(one.param.first); });

}  // namespace
