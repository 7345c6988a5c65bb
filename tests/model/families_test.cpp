// tests/model/families_test.cpp - random models of every family against the double-precision
// reference.
#include <decant/codec/plain.hpp>
#include <decant/model/decoder.hpp>

#include "model/run.hpp"
#include "reference/decoder.hpp"
#include "reference/to_weights.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using reference::Parts;

struct Family {
  std::string name;
  model::Config config;
  Parts parts;

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};

// Two layers of hidden size 24; sizes are no multiples of 16.
model::Config small_model() {
  model::Config config;
  config.vocabulary = 53;
  config.layers = 2;
  config.hidden_size = 24;
  config.heads = 4;
  config.kv_heads = 2;
  config.key_dim = 6;
  config.value_dim = 6;
  config.intermediate_size = 40;
  config.max_positions = 96;
  return config;
}

Family with(std::string name, Parts parts, void (*change)(model::Config&)) {
  Family family{std::move(name), small_model(), parts};
  change(family.config);
  return family;
}

std::vector<Family> families() {
  using C = model::Config;
  return {
      with("Llama", {}, [](C&) {}),
      with("LlamaTied", {.tied = true}, [](C&) {}),
      with("Llama3Scaled", {},
           [](C& c) { c.rope->scaling = attention::Llama3Scaling{8, 1, 4, 256}; }),
      with("LinearScaled", {}, [](C& c) { c.rope->scaling = attention::LinearScaling{4}; }),
      with("Mistral", {}, [](C& c) { c.windows = {4, 4}; }),
      with("WindowOnOneLayer", {}, [](C& c) { c.windows = {0, 17}; }),
      with("Qwen2", {.biases = true}, [](C&) {}),
      with("Qwen3", {.query_key_norm = true, .tied = true},
           [](C& c) {
             c.key_dim = c.value_dim = 10;
             c.norm_epsilon = 1e-6f;
           }),
      with("Gemma", {.tied = true},
           [](C& c) {
             c.activation = model::Activation::gelu_tanh;
             c.embedding_scale = 4.875f;
             c.kv_heads = 1;
             c.key_dim = c.value_dim = 16;
           }),
      with("Gpt2", {.biases = true, .tied = true},
           [](C& c) {
             c.norm = model::Norm::layer;
             c.activation = model::Activation::gelu_tanh;
             c.gated = false;
             c.rope.reset();
             c.kv_heads = c.heads;
           }),
      with("PlainGelu", {.biases = true},
           [](C& c) {
             c.norm = model::Norm::layer;
             c.activation = model::Activation::gelu;
             c.gated = false;
             c.rope->pairing = attention::Pairing::interleaved;
             c.rope->rotary_dim = 4;
           }),
      with("ValuesWiderThanKeys", {},
           [](C& c) {
             c.heads = 6;
             c.kv_heads = 3;
             c.value_dim = 18;
           }),
      with("KeysWiderThanValues", {.biases = true},
           [](C& c) {
             c.key_dim = 20;
             c.value_dim = 3;
             c.score_scale = 0.125f;
           }),
      with("SevenHeadsOnOne", {}, [](C& c) { c.heads = 7, c.kv_heads = 1; }),
  };
}

std::vector<Token> some_tokens(Index count, Index vocabulary) {
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>((i * i + 7 * i + 3) % vocabulary));
  }
  return tokens;
}

class Families : public ::testing::TestWithParam<Family> {
 protected:
  Families()
      : reference_(reference::random_model(GetParam().config, 17, GetParam().parts)),
        tokens_(some_tokens(70, GetParam().config.vocabulary)),
        expected_(reference_.logits(tokens_)) {}

  // The largest error of a decoder whose weights are stored as `type`, cached as C; the weights
  // have no more bits than any type holds.
  template <codec::Codec C>
  double error(codec::Type type, std::size_t chunk) const {
    const model::Decoder decoder(GetParam().config,
                                 reference::to_weights(reference_.model(), type));
    const trial::Rows rows = trial::chunked<C>(decoder, tokens_, chunk);
    double worst = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto expected = expected_.row(static_cast<Index>(i));
      worst = std::max(worst, reference::max_difference(rows[i], expected));
    }
    return worst;
  }

  reference::Decoder reference_;
  std::vector<Token> tokens_;
  reference::Matrix expected_;
};

TEST_P(Families, PrefillGivesTheLogitsOfTheReference) {
  EXPECT_LE(error<codec::F32>(codec::Type::f32, 70), 2e-5);
}

TEST_P(Families, ChunksAndSingleTokensGiveTheLogitsOfTheReference) {
  EXPECT_LE(error<codec::F32>(codec::Type::f32, 1), 2e-5);
  EXPECT_LE(error<codec::F32>(codec::Type::f32, 23), 2e-5);
}

TEST_P(Families, WeightsOfTwoBytesThatLoseNothingChangeNothing) {
  EXPECT_LE(error<codec::F32>(codec::Type::bf16, 70), 2e-5);
  EXPECT_LE(error<codec::F32>(codec::Type::f16, 70), 2e-5);
}

TEST_P(Families, CachesOfTwoBytesStayNear) {
  EXPECT_LE(error<codec::BF16>(codec::Type::f32, 23), 0.2);
  EXPECT_LE(error<codec::F16>(codec::Type::f32, 23), 0.03);
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(families()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
