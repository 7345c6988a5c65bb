// tests/checkpoints/gguf_config_test.cpp - what the keys of a GGUF file say about its model.
#include <decant/checkpoints/detail/gguf_config.hpp>

#include "files/written_gguf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace {

using namespace decant;
using checkpoints::detail::CheckpointConfig;
using files::GgufType;
using trial::refuses;
using trial::WrittenGguf;

CheckpointConfig config_of(const WrittenGguf& file) {
  const std::string bytes = file.bytes();
  return checkpoints::detail::read_gguf_config(trial::parse_gguf(bytes));
}
testing::AssertionResult config_refused(const WrittenGguf& file,
                                        std::initializer_list<std::string_view> parts) {
  return refuses([&] { config_of(file); }, parts);
}

TEST(GgufConfig, HasTheSizesOfItsKeys) {
  const CheckpointConfig config = config_of(WrittenGguf::llama());
  EXPECT_EQ(config.model,
            (model::Config{.vocabulary = 11,
                           .layers = 2,
                           .hidden_size = 8,
                           .heads = 2,
                           .kv_heads = 1,
                           .key_dim = 6,
                           .value_dim = 6,
                           .intermediate_size = 10,
                           .max_positions = 2048,
                           .norm_epsilon = 1e-6f,
                           .rope = attention::Rope{.rotary_dim = 6,
                                                   .pairing = attention::Pairing::interleaved}}));
  EXPECT_FALSE(config.tied || config.qkv_bias || config.query_key_norm || config.norm_plus_one);
  EXPECT_FALSE(config.begin_token.has_value());
  EXPECT_TRUE(config.end_tokens.empty());
}

TEST(GgufConfig, FillsInWhatFollowsFromOtherKeys) {
  WrittenGguf file = WrittenGguf::llama();
  for (const char* key : {"vocab_size", "attention.head_count_kv", "attention.key_length",
                          "attention.value_length"}) {
    file.remove(std::string("llama.") + key);
  }
  file.texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  file.without("output.weight");
  const CheckpointConfig config = config_of(file);
  EXPECT_EQ(config.model.vocabulary, 3);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.model.key_dim, 4);
  EXPECT_EQ(config.model.value_dim, 4);
  EXPECT_EQ(config.model.rope->rotary_dim, 4);
  EXPECT_EQ(config.model.rope->theta, 10000.0);
  EXPECT_TRUE(config.tied);
}

TEST(GgufConfig, KnowsTheHabitsOfAFamily) {
  const CheckpointConfig qwen2 = config_of(WrittenGguf::llama("qwen2"));
  EXPECT_EQ(qwen2.model.rope->pairing, attention::Pairing::half_split);
  EXPECT_FALSE(qwen2.query_key_norm);
  const CheckpointConfig qwen3 = config_of(WrittenGguf::llama("qwen3"));
  EXPECT_EQ(qwen3.model.rope->pairing, attention::Pairing::half_split);
  EXPECT_TRUE(qwen3.query_key_norm);
  const CheckpointConfig gemma = config_of(WrittenGguf::llama("gemma"));
  EXPECT_EQ(gemma.model.embedding_scale, std::sqrt(8.0f));
  EXPECT_EQ(gemma.model.activation, model::Activation::gelu_tanh);
  EXPECT_FALSE(gemma.norm_plus_one);
  EXPECT_TRUE(
      config_refused(WrittenGguf::llama("gpt2"), {"f.gguf: general.architecture is \"gpt2\""}));
  EXPECT_TRUE(config_refused(WrittenGguf::llama("mamba"), {"\"mamba\", which is not supported"}));
}

TEST(GgufConfig, FindsBiasesAmongTheTensors) {
  WrittenGguf file = WrittenGguf::llama("qwen2");
  file.add("blk.0.attn_q.bias", {12});
  EXPECT_TRUE(config_of(file).qkv_bias);
  EXPECT_FALSE(config_of(file).attention_output_bias);
  file.add("blk.0.attn_output.bias", {8});
  file.add("blk.0.ffn_gate.bias", {10});
  EXPECT_TRUE(config_of(file).attention_output_bias);
  EXPECT_TRUE(config_of(file).feed_forward_bias);
}

TEST(GgufConfig, ReadsRotaryRules) {
  WrittenGguf file = WrittenGguf::llama();
  file.number("llama.rope.dimension_count", 4);
  file.real("llama.rope.freq_base", 5e5f);
  file.text("llama.rope.scaling.type", "none");
  EXPECT_EQ(config_of(file).model.rope->rotary_dim, 4);
  EXPECT_EQ(config_of(file).model.rope->theta, 5e5);
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::Unscaled{}));
  file.text("llama.rope.scaling.type", "linear");
  file.real("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::LinearScaling{4.0}));
  file.text("llama.rope.scaling.type", "yarn");
  EXPECT_TRUE(config_refused(file, {"f.gguf: llama.rope.scaling.type is \"yarn\""}));
  // A factor without a rule is linear, and 0 is none.
  file.remove("llama.rope.scaling.type");
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::LinearScaling{4.0}));
  file.real("llama.rope.scaling.factor", 0.0f);
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::Unscaled{}));
  file.real("llama.rope.scaling.factor", -2.0f);
  EXPECT_TRUE(config_refused(file, {"f.gguf: llama.rope.scaling.factor is -2"}));
  file.remove("llama.rope.scaling.factor");
  file.real("llama.rope.scale_linear", 8.0f);
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::LinearScaling{8.0}));
  file.text("llama.rope.scaling.type", "none");
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::Unscaled{}));
  file.remove("llama.rope.scale_linear");
  for (std::uint64_t odd : {0u, 3u, 8u}) {
    file.number("llama.rope.dimension_count", odd);
    EXPECT_TRUE(
        config_refused(file, {"f.gguf: llama.rope.dimension_count is " + std::to_string(odd)}));
  }
}

// The values that a converter writes for the llama3 rule with these constants.
std::vector<float> divisors(const attention::Rope& plain, const attention::Llama3Scaling& scaling) {
  attention::Rope rope = plain;
  rope.scaling = scaling;
  const auto whole = attention::frequencies(plain, plain.rotary_dim);
  const auto scaled = attention::frequencies(rope, plain.rotary_dim);
  std::vector<float> result;
  for (std::size_t index = 0; index < whole.size(); ++index) {
    result.push_back(static_cast<float>(whole[index] / scaled[index]));
  }
  return result;
}

TEST(GgufConfig, RecognisesTheLlama3RuleByItsDivisors) {
  const attention::Rope plain = {.rotary_dim = 64, .theta = 5e5};
  WrittenGguf file = WrittenGguf::llama();
  file.number("llama.attention.key_length", 64);
  file.real("llama.rope.freq_base", 5e5f);
  for (const double factor : {8.0, 32.0}) {
    const attention::Llama3Scaling rule = {.factor = factor};
    file.add_values("rope_freqs.weight", {32}, divisors(plain, rule));
    EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(rule));
  }
  file.add_values("rope_freqs.weight", {32}, std::vector<float>(32, 1.0f));
  EXPECT_EQ(config_of(file).model.rope->scaling, attention::Scaling(attention::Unscaled{}));

  const std::vector<float> good = divisors(plain, {.factor = 8.0});
  file.add_values("rope_freqs.weight", {32}, good);
  file.text("llama.rope.scaling.type", "linear");
  file.real("llama.rope.scaling.factor", 4.0f);
  EXPECT_TRUE(config_refused(file, {"f.gguf: llama.rope.scaling.type", "rope_freqs.weight"}));
  file.remove("llama.rope.scaling.type");
  file.remove("llama.rope.scaling.factor");
  for (std::size_t index = 0; index < good.size(); ++index) {
    for (const float wrong :
         {good[index] * 1.001f, 0.0f, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> odd = good;
      odd[index] = wrong;
      file.add_values("rope_freqs.weight", {32}, odd);
      EXPECT_TRUE(config_refused(file, {"f.gguf: tensor rope_freqs.weight does not follow"}))
          << index;
    }
  }
  file.add_values("rope_freqs.weight", {32},
                  divisors(plain, {.factor = 8.0, .original_positions = 4096}));
  EXPECT_TRUE(config_refused(file, {"rope_freqs.weight does not follow"}));
  file.add_values("rope_freqs.weight", {31}, std::vector<float>(31, 1.0f));
  EXPECT_TRUE(config_refused(file, {"rope_freqs.weight has shape [31], not [32]"}));
}

TEST(GgufConfig, RefusesSizesThatCannotBe) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
        "context_length", "attention.layer_norm_rms_epsilon"}) {
    WrittenGguf file = WrittenGguf::llama();
    file.remove(std::string("llama.") + key);
    EXPECT_TRUE(config_refused(file, {std::string("f.gguf: llama.") + key + " is absent"}));
  }
  for (const char* key : {"vocab_size", "block_count", "embedding_length", "attention.head_count",
                          "attention.head_count_kv", "attention.key_length", "context_length"}) {
    WrittenGguf file = WrittenGguf::llama();
    const std::string name = std::string("llama.") + key;
    file.number(name, 0);
    EXPECT_TRUE(config_refused(file, {"f.gguf: " + name + " is 0"}));
    file.number(name, 0xFFFFFFFF);
    EXPECT_TRUE(config_refused(file, {"f.gguf: " + name + " is 4294967295"}));
    file.text(name, "8");
    EXPECT_TRUE(config_refused(file, {"f.gguf: " + name + " is a string"}));
  }
  WrittenGguf file = WrittenGguf::llama();
  file.number("llama.attention.head_count", 3);
  file.number("llama.attention.head_count_kv", 2);
  EXPECT_TRUE(config_refused(file, {"llama.attention.head_count is 3, not divisible by 2"}));
  file.number("llama.attention.head_count_kv", 1);
  file.remove("llama.attention.key_length");
  EXPECT_TRUE(config_refused(file, {"llama.embedding_length is 8, not divisible by 3 heads"}));
  file = WrittenGguf::llama();
  file.real("llama.attention.layer_norm_rms_epsilon", -1.0f);
  EXPECT_TRUE(config_refused(file, {"llama.attention.layer_norm_rms_epsilon is -1"}));
  file = WrittenGguf::llama();
  file.remove("llama.vocab_size");
  EXPECT_TRUE(config_refused(file, {"f.gguf: tokenizer.ggml.tokens is absent"}));
}

TEST(GgufConfig, RefusesWhatItCannotCompute) {
  for (const char* key : {"expert_count", "attn_logit_softcapping", "final_logit_softcapping",
                          "logit_scale", "attention.scale"}) {
    WrittenGguf file = WrittenGguf::llama();
    file.real(std::string("llama.") + key, 0.0f);
    config_of(file);
    file.real(std::string("llama.") + key, 2.0f);
    EXPECT_TRUE(config_refused(file, {std::string("f.gguf: llama.") + key + " is set"}));
  }
  WrittenGguf file = WrittenGguf::llama();
  file.flag("llama.attention.causal", false);
  EXPECT_TRUE(config_refused(file, {"llama.attention.causal is false"}));
  file = WrittenGguf::llama();
  file.number("split.count", 2);
  EXPECT_TRUE(config_refused(file, {"f.gguf: split.count"}));
  file = WrittenGguf::llama("qwen2");
  file.number("qwen2.attention.sliding_window", 4);
  EXPECT_TRUE(config_refused(file, {"qwen2.attention.sliding_window is set"}));
  file = WrittenGguf::llama();
  file.number("llama.attention.sliding_window", 4);
  EXPECT_EQ(config_of(file).model.windows, (std::vector<Position>{4, 4}));
}

TEST(GgufConfig, HasTheSpecialTokensThatTheVocabularyHas) {
  WrittenGguf file = WrittenGguf::llama();
  file.number("tokenizer.ggml.bos_token_id", 1);
  file.number("tokenizer.ggml.eos_token_id", 2);
  file.number("tokenizer.ggml.eot_token_id", 10);
  EXPECT_EQ(config_of(file).begin_token, 1);
  EXPECT_EQ(config_of(file).end_tokens, (std::vector<Token>{2, 10}));
  file.number("tokenizer.ggml.eot_token_id", 2);
  EXPECT_EQ(config_of(file).end_tokens, (std::vector<Token>{2}));
  file.number("tokenizer.ggml.bos_token_id", 0xFFFFFFFF);
  file.number("tokenizer.ggml.eos_token_id", 11);
  const CheckpointConfig config = config_of(file);
  EXPECT_FALSE(config.begin_token.has_value());
  EXPECT_EQ(config.end_tokens, (std::vector<Token>{2}));
  ASSERT_EQ(config.warnings.size(), 2u);
  EXPECT_EQ(
      config.warnings[1],
      "f.gguf: tokenizer.ggml.eos_token_id 11 is outside the vocabulary of 11 and is ignored");
}

}  // namespace
