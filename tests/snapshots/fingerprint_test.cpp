// tests/snapshots/fingerprint_test.cpp - a model's name: the same for the same values, another
// where one of them is.
#include <decant/snapshots/fingerprint.hpp>

#include "law/models.hpp"

#include <decant/codec/type.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

model::LayerWeights& second(model::Weights& weights) { return weights.layers[1]; }

TEST(Fingerprint, IsTheSameForTheSameModel) {
  const std::string print = snapshots::fingerprint(trial::decoder_of(trial::llama()));
  EXPECT_EQ(print.size(), 32u);
  EXPECT_EQ(print, snapshots::fingerprint(trial::decoder_of(trial::llama())));
}

TEST(Fingerprint, DependsOnEveryPartOfAModel) {
  std::set<std::string> prints;
  const auto add = [&](const trial::Family& family, codec::Type weights = codec::Type::f32) {
    EXPECT_TRUE(prints.insert(snapshots::fingerprint(trial::decoder_of(family, weights))).second)
        << family << " " << name(weights);
  };
  for (const trial::Family& family : trial::families()) add(family);
  add(trial::llama(), codec::Type::bf16);
  add(trial::llama(), codec::Type::q8_0);
  const std::vector<std::function<void(model::Config&)>> changes = {
      [](auto& config) { config.rope->theta = 10001.0; },
      [](auto& config) { config.rope->pairing = attention::Pairing::interleaved; },
      [](auto& config) { config.rope->scaling = attention::LinearScaling{2.0}; },
      [](auto& config) { config.rope->rotary_dim = 8; },
      [](auto& config) { config.norm_epsilon = 1e-6f; },
      [](auto& config) { config.score_scale = 0.5f; },
      [](auto& config) { config.embedding_scale = 2.0f; },
      [](auto& config) { config.activation = model::Activation::gelu; },
      [](auto& config) { config.windows = {0, 7}; },
      [](auto& config) { config.sink_tokens = 3; }};
  for (const auto& change : changes) {
    trial::Family family = trial::llama();
    change(family.config);
    add(family);
  }
}

TEST(Fingerprint, DependsOnWhatProductsDoToTheirRows) {
  const trial::Family family = trial::llama();
  const reference::Model random = reference::random_model(family.config, 5, family.parts);
  const std::vector<float> values(41 * 36, 0.25f);
  std::set<std::string> prints;
  for (const auto activations : {kernels::Activations::quantised, kernels::Activations::full}) {
    model::Weights weights = reference::to_weights(random, codec::Type::f32);
    const kernels::MatrixView view = kernels::row_major(values.data(), codec::Type::f32, 41, 36);
    weights.embedding = kernels::Matrix({&view, 1}, codec::Type::q8_0, activations);
    EXPECT_EQ(weights.embedding.activations(), activations);
    prints.insert(snapshots::fingerprint(model::Decoder(family.config, std::move(weights))));
  }
  EXPECT_EQ(prints.size(), 2u);
}

TEST(Fingerprint, DependsOnEveryMatrixAndVector) {
  const trial::Family family = trial::normed_heads();
  const auto random = [&](unsigned seed) {
    return reference::to_weights(reference::random_model(family.config, seed, family.parts),
                                 codec::Type::f32);
  };
  std::set<std::string> prints;
  // Whether the model has a name of its own when `take` has taken some of another's weights.
  const auto add = [&](void (*take)(model::Weights& ours, model::Weights& other)) {
    model::Weights weights = random(5);
    model::Weights other = random(6);
    take(weights, other);
    return prints.insert(snapshots::fingerprint(model::Decoder(family.config, std::move(weights))))
        .second;
  };
  using model::Weights;
  EXPECT_TRUE(add([](Weights&, Weights&) {}));
  EXPECT_FALSE(add([](Weights&, Weights&) {}));
  EXPECT_TRUE(add([](Weights& w, Weights& o) { std::swap(w.embedding, o.embedding); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) { std::swap(w.output, o.output); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) { std::swap(w.output_norm, o.output_norm); }));
  EXPECT_TRUE(
      add([](Weights& w, Weights& o) { std::swap(second(w).qkv.matrix, second(o).qkv.matrix); }));
  EXPECT_TRUE(
      add([](Weights& w, Weights& o) { std::swap(second(w).qkv.bias, second(o).qkv.bias); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) {
    std::swap(second(w).attention_output, second(o).attention_output);
  }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) { std::swap(second(w).up, second(o).up); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) { std::swap(second(w).down, second(o).down); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) {
    std::swap(second(w).attention_norm, second(o).attention_norm);
  }));
  EXPECT_TRUE(
      add([](Weights& w, Weights& o) { std::swap(second(w).query_norm, second(o).query_norm); }));
  EXPECT_TRUE(
      add([](Weights& w, Weights& o) { std::swap(second(w).key_norm, second(o).key_norm); }));
  EXPECT_TRUE(add([](Weights& w, Weights& o) {
    std::swap(second(w).feed_forward_norm, second(o).feed_forward_norm);
  }));
}

}  // namespace
