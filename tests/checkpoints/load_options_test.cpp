// tests/checkpoints/load_options_test.cpp - weights stored in another format than their file's.
#include <decant/checkpoints/load_checkpoint.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "model/files.hpp"
#include "model/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using checkpoints::LoadOptions;
using trial::rows_of;
using trial::WrittenCheckpoint;

TEST(LoadOptions, StoreEveryMatrixInTheFormatAskedFor) {
  for (const codec::Type type : codec::kTypes) {
    if (codec::is_scaled(type)) continue;
    for (WrittenCheckpoint file : {WrittenCheckpoint::llama(), WrittenCheckpoint::gpt2()}) {
      const Checkpoint loaded = file.load({.weights = type});
      EXPECT_EQ(loaded.weights.embedding.type(), type);
      if (!loaded.weights.output.matrix.empty()) {
        EXPECT_EQ(loaded.weights.output.matrix.type(), type);
      }
      for (const model::LayerWeights& layer : loaded.weights.layers) {
        EXPECT_EQ(layer.qkv.matrix.type(), type);
        EXPECT_EQ(layer.attention_output.matrix.type(), type);
        EXPECT_EQ(layer.up.matrix.type(), type);
        EXPECT_EQ(layer.down.matrix.type(), type);
      }
    }
  }
}

TEST(LoadOptions, LeaveNormsBiasesAndPositionsAsTheyAre) {
  const Checkpoint plain = WrittenCheckpoint::gpt2().load();
  const Checkpoint quantised = WrittenCheckpoint::gpt2().load({.weights = codec::Type::q4_0});
  EXPECT_EQ(plain.weights.positions, quantised.weights.positions);
  EXPECT_EQ(plain.weights.output_norm.weight, quantised.weights.output_norm.weight);
  EXPECT_EQ(plain.weights.layers[1].qkv.bias, quantised.weights.layers[1].qkv.bias);
  EXPECT_EQ(plain.weights.layers[1].up.bias, quantised.weights.layers[1].up.bias);
}

TEST(LoadOptions, QuantiseTheValuesOfTheFile) {
  const auto plain = rows_of(WrittenCheckpoint::gpt2().load().weights.layers[0].up.matrix);
  const auto quantised = rows_of(
      WrittenCheckpoint::gpt2().load({.weights = codec::Type::q8_0}).weights.layers[0].up.matrix);
  ASSERT_EQ(plain.size(), quantised.size());
  bool differ = false;
  for (std::size_t row = 0; row < plain.size(); ++row) {
    // Half a step, and the rounding of the scale to f16, 127 times.
    const float bound = *std::ranges::max_element(plain[row]) / 127 * (0.5f + 127.0f / 2048);
    for (std::size_t column = 0; column < plain[row].size(); ++column) {
      EXPECT_NEAR(plain[row][column], quantised[row][column], bound);
      differ |= plain[row][column] != quantised[row][column];
    }
  }
  EXPECT_TRUE(differ);
}

// The embedded model: bf16 in its file, with double-precision logits beside it.
class StoredWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "no model in " << kFolder;
    tokens_ = trial::read_tokens(kFolder / "reference" / "romeo.tokens.txt");
  }
  model::Decoder load(const LoadOptions& options) const {
    Checkpoint checkpoint = checkpoints::load_checkpoint(kFolder, options);
    return {std::move(checkpoint.config), std::move(checkpoint.weights)};
  }
  double worst(const LoadOptions& options) const {
    const model::Decoder decoder = load(options);
    const auto logits =
        trial::read_logits(kFolder / "reference" / "romeo.logits.f32", decoder.config().vocabulary);
    return trial::worst_difference(trial::chunked(decoder, tokens_, 16), logits);
  }

  inline static const std::filesystem::path kFolder =
      std::filesystem::path(DECANT_EXAMPLE_MODELS) / "shakespeare";
  std::vector<Token> tokens_;
};

TEST_F(StoredWeights, InMoreBitsThanTheFileHasGiveTheSameBits) {
  const auto stored = trial::chunked(load({}), tokens_, 16);
  EXPECT_EQ(trial::chunked(load({.weights = codec::Type::bf16}), tokens_, 16), stored);
  EXPECT_LE(worst({.weights = codec::Type::f32}), 5e-5);
}

TEST_F(StoredWeights, InFewerBitsStayNearTheReference) {
  using kernels::Activations;
  const double q8 = worst({.weights = codec::Type::q8_0});
  const double q8_full = worst({.weights = codec::Type::q8_0, .activations = Activations::full});
  const double q4 = worst({.weights = codec::Type::q4_0});
  RecordProperty("q8_0", std::to_string(q8));
  RecordProperty("q8_0_full", std::to_string(q8_full));
  RecordProperty("q4_0", std::to_string(q4));
  EXPECT_GT(q8, 1e-4);
  EXPECT_LE(q8, 0.3);
  EXPECT_LE(q8_full, 0.15);
  EXPECT_NE(q8, q8_full);
  EXPECT_GT(q4, q8);
  EXPECT_LE(q4, 2.5);
}

TEST_F(StoredWeights, TakeTheBytesOfTheirFormat) {
  const auto bytes = [&](codec::Type type) {
    return load({.weights = type}).weights().layers[0].qkv.matrix.bytes();
  };
  const Index f32 = bytes(codec::Type::f32);
  EXPECT_EQ(bytes(codec::Type::bf16) * 2, f32);
  EXPECT_EQ(bytes(codec::Type::q8_0) * 4 * 32, f32 * 34);
  EXPECT_EQ(bytes(codec::Type::q4_0) * 4 * 32, f32 * 18);
}

}  // namespace
