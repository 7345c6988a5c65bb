// tests/checkpoints/hf_rope_test.cpp - every spelling of a rotary rule, and those that are refused.
#include <decant/checkpoints/detail/hf_config.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace {

using namespace decant;
using files::Json;
using trial::refuses;

// The rotation of a small Llama model with heads of 16, as `changes` alter it.
attention::Rope rope(const Json& changes) {
  Json json = {{"model_type", "llama"},  {"vocab_size", 100},        {"hidden_size", 64},
               {"num_hidden_layers", 3}, {"num_attention_heads", 4}, {"intermediate_size", 96}};
  json.update(changes);
  return *checkpoints::detail::parse_hf_config(json.dump(), "config.json").model.rope;
}

TEST(HfRope, ReadsEverySpellingOfAScaling) {
  const auto linear = [](const attention::Rope& rope) {
    return std::get<attention::LinearScaling>(rope.scaling).factor;
  };
  EXPECT_EQ(linear(rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}})), 2.5);
  EXPECT_EQ(linear(rope({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 4}}}})), 4.0);
  EXPECT_EQ(linear(rope({{"rope_parameters", {{"rope_type", "linear"}, {"factor", 3}}}})), 3.0);
  for (const Json& none : {Json(nullptr), Json::object(), Json{{"rope_type", "default"}},
                           Json{{"type", "default"}, {"rope_type", "default"}}}) {
    EXPECT_EQ(rope({{"rope_scaling", none}}).scaling.index(), 0u) << none;
  }
}

TEST(HfRope, ReadsTheLlama3Rule) {
  const Json rule = {{"rope_type", "llama3"},
                     {"factor", 32.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const attention::Rope read =
      rope({{"rope_scaling", rule}, {"rope_theta", 500000.0}, {"head_dim", 64}});
  const auto& scaling = std::get<attention::Llama3Scaling>(read.scaling);
  EXPECT_EQ(scaling.factor, 32.0);
  EXPECT_EQ(scaling.low_frequency_factor, 1.0);
  EXPECT_EQ(scaling.high_frequency_factor, 4.0);
  EXPECT_EQ(scaling.original_positions, 8192.0);
  const std::vector<double> frequencies = attention::frequencies(read, 64);
  EXPECT_NEAR(frequencies[15], 1.290547928e-3, 1e-12);
  EXPECT_NEAR(frequencies[18], 1.946163818e-5, 1e-14);
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json cut = rule;
    cut.erase(key);
    EXPECT_TRUE(refuses([&] { rope({{"rope_scaling", cut}}); }, {key, "is absent"})) << key;
    for (const Json& wrong : {Json(0), Json(-1.0), Json("8"), Json(1e300), Json(true)}) {
      cut[key] = wrong;
      EXPECT_TRUE(refuses([&] { rope({{"rope_scaling", cut}}); }, {"rope_scaling.", key})) << wrong;
    }
  }
  Json crossed = rule;
  crossed["low_freq_factor"] = 4.0;
  EXPECT_TRUE(refuses([&] { rope({{"rope_scaling", crossed}}); }, {"config.json", "low_freq"}));
}

TEST(HfRope, ReadsThetaInsideAndOutsideTheRules) {
  EXPECT_EQ(rope({{"rope_theta", 500000}}).theta, 500000.0);
  EXPECT_EQ(rope({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}).theta,
            1e6);
  EXPECT_EQ(rope({{"rope_parameters", {{"rope_theta", 1e6}}}, {"rope_theta", 1e6}}).theta, 1e6);
  EXPECT_TRUE(
      refuses([] { rope({{"rope_parameters", {{"rope_theta", 1e6}}}, {"rope_theta", 1e4}}); },
              {"rope_parameters.rope_theta"}));
  for (const Json& wrong : {Json(0), Json(-1), Json("10000"), Json(1e300)}) {
    EXPECT_TRUE(refuses([&] { rope({{"rope_theta", wrong}}); }, {"rope_theta is"})) << wrong;
  }
}

TEST(HfRope, TurnsAPartOfTheHead) {
  EXPECT_EQ(rope({{"partial_rotary_factor", 0.25}}).rotary_dim, 4);
  EXPECT_EQ(rope({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}).rotary_dim, 8);
  EXPECT_EQ(attention::frequencies(rope({{"head_dim", 256}, {"partial_rotary_factor", 0.25}}), 256)
                .size(),
            32u);
  for (double part : {0.0, -0.5, 1.5, 0.01, 0.19}) {
    EXPECT_TRUE(
        refuses([&] { rope({{"partial_rotary_factor", part}}); }, {"partial_rotary_factor"}))
        << part;
  }
}

TEST(HfRope, RefusesWhatItDoesNotKnowOrCannotReconcile) {
  for (const char* type : {"dynamic", "yarn", "longrope", "su", "mrope", "proportional", ""}) {
    EXPECT_TRUE(refuses([&] { rope({{"rope_scaling", {{"type", type}, {"factor", 2}}}}); },
                        {"rope_scaling", type, "not supported"}));
    EXPECT_TRUE(refuses([&] { rope({{"rope_parameters", {{"rope_type", type}}}}); },
                        {"rope_parameters", type, "not supported"}));
  }
  const Json by_layer = {{"full_attention", {{"rope_type", "default"}}}};
  EXPECT_TRUE(refuses([&] { rope({{"rope_parameters", by_layer}}); }, {"full_attention"}));
  EXPECT_TRUE(refuses([] { rope({{"rope_scaling", {{"factor", 2}}}}); }, {"rope_type is absent"}));
  EXPECT_TRUE(refuses(
      [] {
        rope({{"rope_scaling", {{"type", "linear"}, {"rope_type", "llama3"}, {"factor", 2}}}});
      },
      {"llama3", "linear"}));
  const Json two = {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                    {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}}}};
  EXPECT_TRUE(refuses([&] { rope(two); }, {"disagree"}));
  EXPECT_TRUE(refuses([] { rope({{"rope_scaling", "linear"}}); }, {"rope_scaling is string"}));
}

}  // namespace
