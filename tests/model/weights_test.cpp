// tests/model/weights_test.cpp - weights of any other shape than the configuration's are refused.
#include <decant/model/weights.hpp>

#include "law/models.hpp"

#include <decant/model/weights.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;

// What refuses the weights of a small model after `change`, or nothing.
std::string refusal(const trial::Family& family,
                    const std::function<void(model::Weights&)>& change) {
  model::Weights weights =
      reference::to_weights(reference::random_model(family.config, 1, family.parts));
  change(weights);
  try {
    model::check(family.config, weights);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

kernels::Matrix zeros(Index rows, Index columns) {
  const std::vector<float> values(static_cast<std::size_t>(rows * columns));
  return kernels::Matrix(kernels::row_major(values.data(), codec::Type::f32, rows, columns));
}

TEST(WeightsCheck, AcceptsEveryFamily) {
  for (const trial::Family& family : trial::families()) {
    EXPECT_EQ(refusal(family, [](model::Weights&) {}), "") << family.name;
  }
}

TEST(WeightsCheck, NamesTheMatrixAndBothShapes) {
  EXPECT_EQ(
      refusal(trial::llama(),
              [](model::Weights& weights) { weights.layers[1].down.matrix = zeros(36, 388); }),
      "model::Weights: down of layer 1 is [36, 388], not [36, 389]");
}

TEST(WeightsCheck, RefusesEveryMatrixOfAnotherShape) {
  using Change = std::function<void(model::Weights&)>;
  const std::vector<Change> changes = {
      [](model::Weights& w) { w.embedding = zeros(40, 36); },
      [](model::Weights& w) { w.embedding = {}; },
      [](model::Weights& w) { w.output.matrix = zeros(41, 35); },
      [](model::Weights& w) { w.layers.pop_back(); },
      [](model::Weights& w) { w.layers[0].qkv.matrix = zeros(125, 36); },
      [](model::Weights& w) { w.layers[0].attention_output.matrix = zeros(36, 71); },
      [](model::Weights& w) { w.layers[0].up.matrix = zeros(389, 36); },
      [](model::Weights& w) { w.layers[0].down.matrix = {}; },
  };
  for (std::size_t n = 0; n < changes.size(); ++n) {
    EXPECT_NE(refusal(trial::llama(), changes[n]), "") << n;
  }
}

TEST(WeightsCheck, RefusesEveryVectorOfAnotherSize) {
  using Change = std::function<void(model::Weights&)>;
  const std::vector<Change> changes = {
      [](model::Weights& w) { w.layers[1].attention_norm.weight.pop_back(); },
      [](model::Weights& w) { w.layers[1].attention_norm.weight.clear(); },
      [](model::Weights& w) { w.layers[1].attention_norm.bias = {1.0f}; },
      [](model::Weights& w) { w.layers[1].feed_forward_norm.weight.push_back(0); },
      [](model::Weights& w) { w.layers[1].qkv.bias.pop_back(); },
      [](model::Weights& w) { w.layers[1].attention_output.bias.push_back(0); },
      [](model::Weights& w) { w.layers[1].up.bias.pop_back(); },
      [](model::Weights& w) { w.layers[1].down.bias.pop_back(); },
      [](model::Weights& w) { w.output_norm.weight.pop_back(); },
      [](model::Weights& w) { w.output.bias = {1.0f}; },
  };
  for (std::size_t n = 0; n < changes.size(); ++n) {
    EXPECT_NE(refusal(trial::gpt2(), changes[n]), "") << n;
  }
  EXPECT_NE(refusal(trial::normed_heads(),
                    [](model::Weights& w) { w.layers[0].query_norm.weight.pop_back(); }),
            "");
  EXPECT_NE(refusal(trial::normed_heads(),
                    [](model::Weights& w) { w.layers[0].key_norm.weight.push_back(1); }),
            "");
}

TEST(WeightsCheck, NeedsLearnedPositionsWithoutRotaryOnes) {
  EXPECT_NE(refusal(trial::gpt2(), [](model::Weights& w) { w.positions.clear(); }), "");
  EXPECT_NE(refusal(trial::gpt2(), [](model::Weights& w) { w.positions.pop_back(); }), "");
  EXPECT_NE(refusal(trial::llama(), [](model::Weights& w) { w.positions = {1.0f}; }), "");
}

TEST(WeightsCheck, LetsBiasesAndOutputBeAbsent) {
  EXPECT_EQ(refusal(trial::gpt2(), [](model::Weights& w) { w.layers[0].qkv.bias.clear(); }), "");
  EXPECT_EQ(refusal(trial::llama(), [](model::Weights& w) { w.output = {}; }), "");
}

TEST(Decoder, RefusesWeightsThatDoNotFit) {
  model::Weights weights = reference::to_weights(reference::random_model(trial::llama().config, 1));
  weights.output_norm.weight.pop_back();
  EXPECT_THROW(model::Decoder(trial::llama().config, std::move(weights)), std::invalid_argument);
}

}  // namespace
