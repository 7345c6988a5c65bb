// tests/checkpoints/hf_config_test.cpp - configurations of every family, and those that are
// refused.
#include <decant/checkpoints/detail/hf_config.hpp>

#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using checkpoints::detail::CheckpointConfig;
using files::Json;
using trial::refuses;
using Windows = std::vector<Position>;

// A small model of a family, with everything given that has no default.
Json sizes(const char* type) {
  return {{"model_type", type},     {"vocab_size", 100},        {"hidden_size", 64},
          {"num_hidden_layers", 3}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 96}};
}
Json gpt2() {
  return {{"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 64},
          {"n_layer", 3},         {"n_head", 4},       {"n_positions", 32}};
}
CheckpointConfig parse(const Json& json) {
  return checkpoints::detail::parse_hf_config(json.dump(), "config.json");
}
CheckpointConfig with(Json json, const Json& changes) {
  json.update(changes);
  return parse(json);
}
CheckpointConfig without(Json json, const char* key) {
  json.erase(key);
  return parse(json);
}

TEST(HfConfig, OfLlamaHasTheDefaultsOfItsClass) {
  const CheckpointConfig config = parse(sizes("llama"));
  EXPECT_EQ(config.model.vocabulary, 100);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.model.heads, 4);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.model.key_dim, 16);
  EXPECT_EQ(config.model.value_dim, 16);
  EXPECT_EQ(config.model.intermediate_size, 96);
  EXPECT_EQ(config.model.max_positions, 2048);
  EXPECT_EQ(config.model.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.model.norm, model::Norm::rms);
  EXPECT_EQ(config.model.activation, model::Activation::silu);
  EXPECT_TRUE(config.model.gated);
  EXPECT_EQ(config.model.embedding_scale, 1.0f);
  EXPECT_EQ(config.model.effective_score_scale(), 0.25f);
  EXPECT_TRUE(config.model.windows.empty());
  EXPECT_EQ(config.model.rope->theta, 10000.0);
  EXPECT_EQ(config.model.rope->rotary_dim, 16);
  EXPECT_EQ(config.model.rope->pairing, attention::Pairing::half_split);
  EXPECT_FALSE(config.tied || config.qkv_bias || config.attention_output_bias ||
               config.feed_forward_bias || config.query_key_norm || config.norm_plus_one);
  EXPECT_TRUE(config.end_tokens.empty() && !config.begin_token && config.warnings.empty());
}

TEST(HfConfig, MayHaveNonFiniteFieldsWhichOnlyPythonWrites) {
  std::string text = sizes("llama").dump();
  text.back() = ',';
  text += R"("limits": [0.0, Infinity, -Infinity, NaN], "note": "a \" NaN"})";
  const CheckpointConfig config = checkpoints::detail::parse_hf_config(text, "config.json");
  EXPECT_EQ(config.model.vocabulary, 100);
  text.back() = ',';
  text += R"("rms_norm_eps": NaN})";
  EXPECT_TRUE(refuses([&] { checkpoints::detail::parse_hf_config(text, "config.json"); },
                      {"config.json: rms_norm_eps", "not a finite number"}));
  EXPECT_EQ(files::quote_non_finite(R"({"a": "NaN \" Infinity", "b": [-Infinity,NaN]})"),
            R"({"a": "NaN \" Infinity", "b": ["-Infinity","NaN"]})");
}

TEST(HfConfig, OfMistralHasAWindowInEveryLayer) {
  EXPECT_EQ(with(sizes("mistral"), {{"sliding_window", 5}}).model.windows, (Windows{5, 5, 5}));
  EXPECT_TRUE(with(sizes("mistral"), {{"sliding_window", nullptr}}).model.windows.empty());
  EXPECT_EQ(parse(sizes("mistral")).model.windows, (Windows{4096, 4096, 4096}));
  EXPECT_EQ(parse(sizes("mistral")).model.max_positions, 131072);
  for (const Json& window : {Json(0), Json(-1), Json(4.0), Json("4")}) {
    EXPECT_TRUE(refuses([&] { with(sizes("mistral"), {{"sliding_window", window}}); },
                        {"config.json: sliding_window"}));
  }
}

TEST(HfConfig, OfQwenHasWindowsOnlyWhereTheyAreSwitchedOn) {
  for (const char* type : {"qwen2", "qwen3"}) {
    EXPECT_TRUE(with(sizes(type), {{"sliding_window", 5}}).model.windows.empty());
    Json on = sizes(type);
    on.update({{"use_sliding_window", true}, {"sliding_window", 5}});
    EXPECT_EQ(with(on, {{"max_window_layers", 2}}).model.windows, (Windows{0, 0, 5}));
    EXPECT_EQ(with(on, {{"max_window_layers", 0}}).model.windows, (Windows{5, 5, 5}));
    EXPECT_TRUE(with(on, {{"max_window_layers", 3}}).model.windows.empty());
    const Json types = {"full_attention", "sliding_attention", "full_attention"};
    EXPECT_EQ(with(on, {{"layer_types", types}}).model.windows, (Windows{0, 5, 0}));
  }
}

TEST(HfConfig, RefusesLayerTypesThatItCannotMean) {
  const Json sliding = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_TRUE(refuses([&] { with(sizes("llama"), {{"layer_types", sliding}}); },
                      {"layer_types", "sliding_attention"}));
  const Json chunked = {"full_attention", "chunked_attention", "full_attention"};
  EXPECT_TRUE(refuses([&] { with(sizes("mistral"), {{"layer_types", chunked}}); },
                      {"layer_types", "chunked_attention"}));
  EXPECT_TRUE(refuses([&] { with(sizes("qwen2"), {{"layer_types", {"full_attention"}}}); },
                      {"layer_types", "3 names"}));
  EXPECT_TRUE(
      refuses([&] { with(sizes("qwen2"), {{"layer_types", {1, 2, 3}}}); }, {"layer_types"}));
}

TEST(HfConfig, KnowsWhichBiasesAndNormsAFamilyHas) {
  const CheckpointConfig qwen2 = parse(sizes("qwen2"));
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.attention_output_bias && !qwen2.query_key_norm);
  EXPECT_FALSE(with(sizes("qwen2"), {{"attention_bias", true}}).attention_output_bias);
  const CheckpointConfig qwen3 = parse(sizes("qwen3"));
  EXPECT_TRUE(!qwen3.qkv_bias && qwen3.query_key_norm);
  const CheckpointConfig biased =
      with(sizes("llama"), {{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(biased.qkv_bias && biased.attention_output_bias && biased.feed_forward_bias);
  const CheckpointConfig other = parse(gpt2());
  EXPECT_TRUE(other.qkv_bias && other.attention_output_bias && other.feed_forward_bias);
}

TEST(HfConfig, OfGemmaScalesEmbeddingsAndShiftsNorms) {
  const CheckpointConfig config = with(sizes("gemma"), {{"head_dim", 6}, {"hidden_act", "gelu"}});
  EXPECT_TRUE(config.norm_plus_one && config.tied);
  EXPECT_EQ(config.model.embedding_scale, 8.0f);
  EXPECT_EQ(config.model.activation, model::Activation::gelu_tanh);
  EXPECT_EQ(config.model.key_dim, 6);
  EXPECT_EQ(parse(sizes("gemma")).model.key_dim, 256);
  EXPECT_EQ(with(sizes("gemma"), {{"hidden_activation", "gelu"}}).model.activation,
            model::Activation::gelu);
}

TEST(HfConfig, OfGpt2IsAnotherBlock) {
  const CheckpointConfig config = parse(gpt2());
  EXPECT_EQ(config.naming, checkpoints::detail::Naming::gpt2);
  EXPECT_EQ(config.model.norm, model::Norm::layer);
  EXPECT_EQ(config.model.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.model.activation, model::Activation::gelu_tanh);
  EXPECT_FALSE(config.model.gated);
  EXPECT_FALSE(config.model.rope.has_value());
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.key_dim, 16);
  EXPECT_EQ(config.model.intermediate_size, 256);
  EXPECT_EQ(config.model.max_positions, 32);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(with(gpt2(), {{"n_inner", 10}}).model.intermediate_size, 10);
  EXPECT_EQ(with(gpt2(), {{"n_inner", nullptr}}).model.intermediate_size, 256);
  EXPECT_EQ(with(gpt2(), {{"scale_attn_weights", false}}).model.effective_score_scale(), 1.0f);
  EXPECT_FALSE(with(gpt2(), {{"tie_word_embeddings", false}}).tied);
  EXPECT_TRUE(refuses([] { with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}); },
                      {"config.json: scale_attn_by_inverse_layer_idx", "not supported"}));
  EXPECT_TRUE(refuses([] { with(gpt2(), {{"n_head", 5}}); }, {"n_embd is 64", "5 heads"}));
}

TEST(HfConfig, TiesTheOutputAsTheFileOrElseTheFamilySays) {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_FALSE(parse(sizes(type)).tied) << type;
    EXPECT_TRUE(with(sizes(type), {{"tie_word_embeddings", true}}).tied) << type;
  }
  EXPECT_TRUE(parse(sizes("gemma")).tied);
  EXPECT_FALSE(with(sizes("gemma"), {{"tie_word_embeddings", false}}).tied);
}

TEST(HfConfig, TakesTheHeadSizeFromHeadDimWhereGiven) {
  const CheckpointConfig given = with(sizes("llama"), {{"head_dim", 32}});
  EXPECT_EQ(given.model.key_dim, 32);
  EXPECT_EQ(given.model.heads * given.model.key_dim, 128);
  EXPECT_EQ(given.model.kv_heads * given.model.value_dim, 64);
  EXPECT_EQ(given.model.rope->rotary_dim, 32);
  EXPECT_EQ(given.model.effective_score_scale(), 1.0f / std::sqrt(32.0f));
  EXPECT_EQ(with(sizes("llama"), {{"head_dim", nullptr}}).model.key_dim, 16);
  EXPECT_EQ(parse(sizes("qwen3")).model.key_dim, 128);
  EXPECT_EQ(with(sizes("qwen3"), {{"head_dim", nullptr}}).model.key_dim, 16);
}

TEST(HfConfig, RefusesAHeadSizeThatIsOddOrNotAnInteger) {
  EXPECT_TRUE(refuses([] { with(sizes("llama"), {{"hidden_size", 60}}); }, {"config.json", "15"}));
  EXPECT_TRUE(refuses([] { with(sizes("llama"), {{"hidden_size", 62}}); },
                      {"config.json: hidden_size is 62", "4 heads"}));
  EXPECT_TRUE(refuses([] { with(sizes("llama"), {{"head_dim", 0}}); }, {"head_dim is 0"}));
}

TEST(HfConfig, CountsKeyAndValueHeads) {
  EXPECT_EQ(without(sizes("llama"), "num_key_value_heads").model.kv_heads, 4);
  EXPECT_EQ(with(sizes("mistral"), {{"num_key_value_heads", nullptr}}).model.kv_heads, 4);
  Json many = sizes("mistral");
  many["num_attention_heads"] = 16;
  EXPECT_EQ(without(many, "num_key_value_heads").model.kv_heads, 8);
  EXPECT_TRUE(refuses([] { with(sizes("llama"), {{"num_key_value_heads", 3}}); },
                      {"num_attention_heads is 4", "3 key and value heads"}));
}

TEST(HfConfig, ReadsActivationsByName) {
  const auto named = [](const char* name) {
    return with(sizes("llama"), {{"hidden_act", name}}).model.activation;
  };
  for (const char* name : {"silu", "swish"}) EXPECT_EQ(named(name), model::Activation::silu);
  for (const char* name : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}) {
    EXPECT_EQ(named(name), model::Activation::gelu_tanh) << name;
  }
  EXPECT_EQ(named("gelu"), model::Activation::gelu);
  for (const char* name : {"relu", "quick_gelu", "", "SiLU"}) {
    EXPECT_TRUE(refuses([&] { named(name); }, {"hidden_act", name, "not supported"}));
  }
}

}  // namespace
