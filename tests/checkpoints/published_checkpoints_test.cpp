// tests/checkpoints/published_checkpoints_test.cpp - folders that others have written: shapes,
// constants and special tokens. What they compute is tested with the decoder.
#include <decant/checkpoints/load_checkpoint.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "model/files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using trial::rows_of;

class PublishedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(trial::kSharedData))
      GTEST_SKIP() << "no test data in " << trial::kSharedData;
  }
  static Checkpoint load(const std::string& name) {
    return checkpoints::load_checkpoint(trial::kSharedData / name);
  }
};

TEST_F(PublishedCheckpoint, OfLlamaIsTheSameInOneFileAndInShards) {
  const Checkpoint one = load("tiny/llama");
  const Checkpoint shards = load("tiny/llama-sharded");
  EXPECT_EQ(one.config.max_positions, 16);
  EXPECT_EQ(one.config.norm_epsilon, 1e-5f);
  EXPECT_TRUE(one.end_tokens.empty());
  EXPECT_EQ(rows_of(one.weights.embedding), rows_of(shards.weights.embedding));
  EXPECT_EQ(rows_of(one.weights.output.matrix), rows_of(shards.weights.output.matrix));
  ASSERT_EQ(one.weights.layers.size(), shards.weights.layers.size());
  for (std::size_t layer = 0; layer < one.weights.layers.size(); ++layer) {
    EXPECT_EQ(rows_of(one.weights.layers[layer].qkv.matrix),
              rows_of(shards.weights.layers[layer].qkv.matrix));
    EXPECT_EQ(rows_of(one.weights.layers[layer].down.matrix),
              rows_of(shards.weights.layers[layer].down.matrix));
  }
}

TEST_F(PublishedCheckpoint, OfMistralHasItsWindow) {
  const Checkpoint loaded = load("tiny/mistral");
  EXPECT_EQ(loaded.config.windows, (std::vector<Position>{4, 4}));
  EXPECT_EQ(loaded.config.key_dim, 4);
  EXPECT_FALSE(loaded.weights.output.matrix.empty());
}

TEST_F(PublishedCheckpoint, OfQwen2HasBiasesOnQueriesKeysAndValues) {
  const Checkpoint loaded = load("tiny/qwen2");
  EXPECT_TRUE(loaded.config.windows.empty());
  EXPECT_EQ(loaded.weights.layers[0].qkv.bias.size(), 16u);
  EXPECT_TRUE(loaded.weights.layers[0].attention_output.bias.empty());
}

TEST_F(PublishedCheckpoint, OfGemmaIsTiedAndScaled) {
  const Checkpoint loaded = load("tiny/gemma");
  EXPECT_EQ(loaded.config.key_dim, 6);
  EXPECT_EQ(loaded.config.embedding_scale, std::sqrt(8.0f));
  EXPECT_EQ(loaded.config.activation, model::Activation::gelu_tanh);
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST_F(PublishedCheckpoint, OfGpt2HasPositionsAndBiases) {
  const Checkpoint tiny = load("tiny/gpt2");
  EXPECT_EQ(tiny.weights.positions.size(), 16u * 8u);
  EXPECT_EQ(tiny.weights.layers[1].up.matrix.rows(), 32);
  const Checkpoint random = load("tiny-random-gpt2");
  EXPECT_EQ(random.config.layers, 5);
  EXPECT_EQ(random.config.intermediate_size, 128);  // not its unused intermediate_size of 37
  EXPECT_EQ(random.end_tokens, (std::vector<Token>{98}));
  EXPECT_EQ(random.begin_token, 98);
  EXPECT_EQ(random.weights.layers[4].qkv.matrix.rows(), 96);
}

TEST_F(PublishedCheckpoint, WithOnlyTheOutputOfATiedMatrixUsesItAsEmbedding) {
  const Checkpoint loaded = load("tinystories-656k");
  EXPECT_EQ(loaded.config.norm_epsilon, 1e-6f);
  EXPECT_EQ(loaded.config.kv_heads, 4);
  EXPECT_EQ(loaded.weights.embedding.rows(), 2048);
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_EQ(loaded.end_tokens, (std::vector<Token>{2}));
  EXPECT_EQ(loaded.begin_token, 1);
}

TEST(ExampleModel, HasBf16Weights) {
  const std::filesystem::path folder = std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no model in " << folder;
  const Checkpoint loaded = checkpoints::load_checkpoint(folder);
  EXPECT_EQ(loaded.config.layers, 6);
  EXPECT_EQ(loaded.config.key_dim, 32);
  EXPECT_EQ(loaded.weights.embedding.type(), codec::Type::bf16);
  EXPECT_EQ(loaded.weights.layers[5].qkv.matrix.type(), codec::Type::bf16);
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_EQ(loaded.end_tokens, (std::vector<Token>{0}));
}

}  // namespace
