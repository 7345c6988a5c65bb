// tests/checkpoints/shakespeare_test.cpp - the embedded model against its own double-precision
// outputs.
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/model/decoder.hpp>

#include "model/files.hpp"
#include "model/run.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using trial::Rows;

// The name of a reference, and how many of its tokens were the prompt.
class Shakespeare : public ::testing::TestWithParam<std::pair<const char*, std::size_t>> {
 protected:
  void SetUp() override {
    const std::filesystem::path folder =
        std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare";
    checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(folder);
    decoder_.emplace(std::move(checkpoint.config), std::move(checkpoint.weights));
    const std::string name = GetParam().first;
    tokens_ = trial::read_tokens(folder / "reference" / (name + ".tokens.txt"));
    logits_ = trial::read_logits(folder / "reference" / (name + ".logits.f32"),
                                 decoder_->config().vocabulary);
    ASSERT_GE(tokens_.size(), 122u);
    ASSERT_EQ(logits_.size(), tokens_.size());
    prompt_.assign(tokens_.begin(), tokens_.begin() + static_cast<Index>(GetParam().second));
    answer_.assign(tokens_.begin() + static_cast<Index>(GetParam().second), tokens_.end());
  }

  std::optional<model::Decoder> decoder_;
  std::vector<Token> tokens_, prompt_, answer_;
  Rows logits_;
};

TEST_P(Shakespeare, GivesTheReferenceLogitsInEveryCut) {
  for (std::size_t chunk : {std::size_t{1}, std::size_t{17}, tokens_.size()}) {
    const Rows rows = trial::chunked(*decoder_, tokens_, chunk);
    ASSERT_EQ(rows.size(), logits_.size());
    EXPECT_LE(trial::worst_difference(rows, logits_), 5e-5) << "chunks of " << chunk;
  }
}

TEST_P(Shakespeare, GivesTheReferenceTokensToTheEnd) {
  trial::expect_greedy(*decoder_, prompt_, answer_);
}

TEST_P(Shakespeare, StaysNearItselfWithACacheOfTwoBytesANumber) {
  const Rows bf16 = trial::chunked<codec::BF16>(*decoder_, tokens_, 16);
  const Rows f16 = trial::chunked<codec::F16>(*decoder_, tokens_, 16);
  EXPECT_LE(trial::worst_difference(bf16, logits_), 0.1);
  EXPECT_LE(trial::worst_difference(f16, logits_), 0.0125);
  EXPECT_GT(trial::worst_difference(f16, logits_), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Prompts, Shakespeare,
                         ::testing::Values(std::pair("romeo", std::size_t{3}),
                                           std::pair("citizen", std::size_t{10})),
                         [](const auto& one) { return std::string(one.param.first); });

}  // namespace
