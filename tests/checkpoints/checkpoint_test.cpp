// tests/checkpoints/checkpoint_test.cpp - whether every tensor arrives where it belongs, or is
// refused.
#include <decant/checkpoints/load_checkpoint.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using trial::refuses;
using trial::rows_of;
using trial::WrittenCheckpoint;
using Rows = std::vector<std::vector<float>>;

// `rows` by `columns` values, all `first + row`.
std::vector<float> numbered(Index rows, Index columns, float first) {
  std::vector<float> result;
  for (Index row = 0; row < rows; ++row) {
    result.insert(result.end(), static_cast<std::size_t>(columns), first + static_cast<float>(row));
  }
  return result;
}

TEST(Checkpoint, OfLlamaHasEveryMatrixInItsShape) {
  const Checkpoint loaded = WrittenCheckpoint::llama().load();
  EXPECT_EQ(loaded.config.key_dim, 6);
  EXPECT_TRUE(loaded.warnings.empty());
  const model::Weights& weights = loaded.weights;
  EXPECT_EQ(weights.embedding.rows(), 11);
  EXPECT_EQ(weights.output.matrix.rows(), 11);
  EXPECT_TRUE(weights.positions.empty());
  EXPECT_EQ(weights.output_norm.weight.size(), 8u);
  ASSERT_EQ(weights.layers.size(), 2u);
  for (const model::LayerWeights& layer : weights.layers) {
    EXPECT_EQ(layer.qkv.matrix.rows(), 12 + 6 + 6);
    EXPECT_EQ(layer.qkv.matrix.columns(), 8);
    EXPECT_EQ(layer.attention_output.matrix.rows(), 8);
    EXPECT_EQ(layer.attention_output.matrix.columns(), 12);
    EXPECT_EQ(layer.up.matrix.rows(), 20);
    EXPECT_EQ(layer.down.matrix.columns(), 10);
    EXPECT_EQ(layer.attention_norm.weight.size(), 8u);
    EXPECT_TRUE(layer.qkv.bias.empty() && layer.up.bias.empty() && layer.down.bias.empty());
    EXPECT_TRUE(layer.query_norm.weight.empty() && layer.attention_norm.bias.empty());
  }
}

TEST(Checkpoint, StacksQueryKeyValueAndGateUpInThatOrder) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  const std::string layer = "model.layers.1.";
  file.tensors.add_values(layer + "self_attn.q_proj.weight", {12, 8}, numbered(12, 8, 0));
  file.tensors.add_values(layer + "self_attn.k_proj.weight", {6, 8}, numbered(6, 8, 100));
  file.tensors.add_values(layer + "self_attn.v_proj.weight", {6, 8}, numbered(6, 8, 200));
  file.tensors.add_values(layer + "mlp.gate_proj.weight", {10, 8}, numbered(10, 8, 30));
  file.tensors.add_values(layer + "mlp.up_proj.weight", {10, 8}, numbered(10, 8, 60));
  const Checkpoint loaded = file.load();
  const Rows qkv = rows_of(loaded.weights.layers[1].qkv.matrix);
  EXPECT_EQ(qkv[11][7], 11.0f);
  EXPECT_EQ(qkv[12][0], 100.0f);
  EXPECT_EQ(qkv[17][0], 105.0f);
  EXPECT_EQ(qkv[18][0], 200.0f);
  const Rows up = rows_of(loaded.weights.layers[1].up.matrix);
  EXPECT_EQ(up[9][0], 39.0f);
  EXPECT_EQ(up[10][0], 60.0f);
}

TEST(Checkpoint, ReadsNamesWithAndWithoutPrefix) {
  EXPECT_EQ(WrittenCheckpoint::llama("llama", "").load().weights.layers.size(), 2u);
  EXPECT_EQ(WrittenCheckpoint::gpt2("").load().weights.layers.size(), 2u);
}

TEST(Checkpoint, ReadsTheBiasesThatTheConfigurationNames) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  file.config.update({{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(refuses([&] { file.load(); }, {"model.layers.0.self_attn.q_proj.bias is absent"}));
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string at = layer;
    file.tensors.add_values(at + "self_attn.q_proj.bias", {12}, numbered(12, 1, 0));
    file.tensors.add_values(at + "self_attn.k_proj.bias", {6}, numbered(6, 1, 100));
    file.tensors.add_values(at + "self_attn.v_proj.bias", {6}, numbered(6, 1, 200), "BF16");
    file.tensors.add(at + "self_attn.o_proj.bias", {8});
    file.tensors.add_values(at + "mlp.gate_proj.bias", {10}, numbered(10, 1, 30));
    file.tensors.add_values(at + "mlp.up_proj.bias", {10}, numbered(10, 1, 60), "F16");
    file.tensors.add(at + "mlp.down_proj.bias", {8});
  }
  const Checkpoint loaded = file.load();
  const model::LayerWeights& layer = loaded.weights.layers[1];
  ASSERT_EQ(layer.qkv.bias.size(), 24u);
  EXPECT_EQ(layer.qkv.bias[11], 11.0f);
  EXPECT_EQ(layer.qkv.bias[12], 100.0f);
  EXPECT_EQ(layer.qkv.bias[18], 200.0f);
  EXPECT_EQ(layer.attention_output.bias.size(), 8u);
  ASSERT_EQ(layer.up.bias.size(), 20u);
  EXPECT_EQ(layer.up.bias[10], 60.0f);
  EXPECT_EQ(layer.down.bias.size(), 8u);
}

TEST(Checkpoint, RefusesABiasThatTheConfigurationRulesOut) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  file.tensors.add("model.layers.0.self_attn.q_proj.bias", {12});
  EXPECT_TRUE(
      refuses([&] { file.load(); }, {"unexpected tensor model.layers.0.self_attn.q_proj.bias"}));
}

TEST(Checkpoint, ReadsTheHeadNormsOfQwen3) {
  WrittenCheckpoint file = WrittenCheckpoint::llama("qwen3");
  EXPECT_TRUE(refuses([&] { file.load(); }, {"q_norm.weight is absent"}));
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    file.tensors.add_values(layer + std::string("self_attn.q_norm.weight"), {6},
                            numbered(6, 1, 10));
    file.tensors.add_values(layer + std::string("self_attn.k_norm.weight"), {6},
                            numbered(6, 1, 20));
  }
  const Checkpoint loaded = file.load();
  EXPECT_EQ(loaded.weights.layers[1].query_norm.weight.at(5), 15.0f);
  EXPECT_EQ(loaded.weights.layers[1].key_norm.weight.at(0), 20.0f);
}

TEST(Checkpoint, AddsOneToEveryNormOfGemma) {
  WrittenCheckpoint file = WrittenCheckpoint::llama("gemma");
  const std::vector<float> small(8, 0.25f);
  for (const char* name : {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.1.post_attention_layernorm.weight"}) {
    file.tensors.add_values(name, {8}, small);
  }
  const Checkpoint loaded = file.load();
  const std::vector<float> shifted(8, 1.25f);
  EXPECT_EQ(loaded.weights.output_norm.weight, shifted);
  EXPECT_EQ(loaded.weights.layers[0].attention_norm.weight, shifted);
  EXPECT_EQ(loaded.weights.layers[1].feed_forward_norm.weight, shifted);
  EXPECT_EQ(loaded.config.embedding_scale, std::sqrt(8.0f));
}

TEST(Checkpoint, TransposesTheLinearLayersOfGpt2) {
  WrittenCheckpoint file = WrittenCheckpoint::gpt2();
  std::vector<float> values;
  for (Index in = 0; in < 8; ++in) {
    for (Index out = 0; out < 24; ++out) values.push_back(static_cast<float>(100 * in + out));
  }
  file.tensors.add_values("transformer.h.1.attn.c_attn.weight", {8, 24}, values);
  const Checkpoint loaded = file.load();
  const model::LayerWeights& layer = loaded.weights.layers[1];
  EXPECT_EQ(layer.qkv.matrix.rows(), 24);
  EXPECT_EQ(layer.qkv.matrix.columns(), 8);
  EXPECT_EQ(rows_of(layer.qkv.matrix)[23][2], 223.0f);
  EXPECT_EQ(layer.up.matrix.rows(), 10);
  EXPECT_EQ(layer.down.matrix.rows(), 8);
  EXPECT_EQ(layer.down.matrix.columns(), 10);
  EXPECT_EQ(layer.up.bias.size(), 10u);
  EXPECT_EQ(layer.attention_norm.bias.size(), 8u);
  EXPECT_EQ(loaded.weights.positions.size(), 40u);
  EXPECT_EQ(loaded.weights.positions[39], 40.0f);
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
}

TEST(Checkpoint, RetainsTheFormatOfTheFile) {
  for (const auto& [dtype, type] :
       {std::pair("F32", codec::Type::f32), std::pair("BF16", codec::Type::bf16),
        std::pair("F16", codec::Type::f16)}) {
    WrittenCheckpoint file = WrittenCheckpoint::llama();
    for (const char* name : {"q", "k", "v"}) {
      file.tensors.add(std::string("model.layers.0.self_attn.") + name + "_proj.weight",
                       {name[0] == 'q' ? 12 : 6, 8}, dtype);
    }
    file.tensors.add("model.layers.0.input_layernorm.weight", {8}, dtype);
    const Checkpoint loaded = file.load();
    const model::LayerWeights& layer = loaded.weights.layers[0];
    EXPECT_EQ(layer.qkv.matrix.type(), type);
    EXPECT_EQ(rows_of(layer.qkv.matrix)[11][7], 96.0f);
    EXPECT_EQ(layer.attention_norm.weight[7], 8.0f);
    EXPECT_EQ(loaded.weights.layers[1].qkv.matrix.type(), codec::Type::f32);
  }
}

TEST(Checkpoint, StacksMixedFormatsInF32) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  file.tensors.add("model.layers.0.self_attn.q_proj.weight", {12, 8}, "BF16");
  file.tensors.add("model.layers.0.self_attn.k_proj.weight", {6, 8}, "F16");
  const Checkpoint loaded = file.load();
  const kernels::Matrix& qkv = loaded.weights.layers[0].qkv.matrix;
  EXPECT_EQ(qkv.type(), codec::Type::f32);
  EXPECT_EQ(rows_of(qkv)[11][7], 96.0f);
  EXPECT_EQ(rows_of(qkv)[17][7], 48.0f);
}

TEST(Checkpoint, AcceptsValuesThatAreNotFinite) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  std::vector<float> odd(8, std::numeric_limits<float>::infinity());
  odd[0] = std::numeric_limits<float>::quiet_NaN();
  file.tensors.add_values("model.norm.weight", {8}, odd);
  EXPECT_TRUE(std::isnan(file.load().weights.output_norm.weight[0]));
}

TEST(Checkpoint, RefusesATensorThatIsAbsent) {
  const WrittenCheckpoint whole = WrittenCheckpoint::llama();
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                           "model.layers.1.mlp.up_proj.weight"}) {
    WrittenCheckpoint file = whole;
    file.tensors.remove(name);
    EXPECT_TRUE(refuses([&] { file.load(); }, {"model.safetensors", name, "is absent"}));
  }
}

TEST(Checkpoint, RefusesATensorThatNobodyAskedFor) {
  for (const char* name : {"model.layers.2.mlp.up_proj.weight", "classifier.weight", "x"}) {
    WrittenCheckpoint file = WrittenCheckpoint::llama();
    file.tensors.add(name, {1});
    EXPECT_TRUE(refuses([&] { file.load(); }, {"model.safetensors: unexpected tensor ", name}));
  }
}

TEST(Checkpoint, IgnoresBuffersThatFollowFromTheConfiguration) {
  WrittenCheckpoint llama = WrittenCheckpoint::llama();
  llama.tensors.add("model.layers.0.self_attn.rotary_emb.inv_freq", {3});
  llama.tensors.add("model.rotary_emb.inv_freq", {3});
  EXPECT_NO_THROW(llama.load());
  WrittenCheckpoint gpt2 = WrittenCheckpoint::gpt2();
  gpt2.tensors.add("transformer.h.0.attn.bias", {1, 1, 5, 5});
  gpt2.tensors.add("transformer.h.0.attn.masked_bias", {});
  EXPECT_NO_THROW(gpt2.load());
}

TEST(Checkpoint, RefusesAShapeAndShowsBoth) {
  WrittenCheckpoint file = WrittenCheckpoint::llama();
  file.tensors.add("model.layers.1.self_attn.o_proj.weight", {8, 8});
  EXPECT_TRUE(refuses([&] { file.load(); },
                      {"model.layers.1.self_attn.o_proj.weight", "[8, 8]", "[8, 12]"}));
  WrittenCheckpoint flat = WrittenCheckpoint::llama();
  flat.tensors.add("model.norm.weight", {8, 1});
  EXPECT_TRUE(refuses([&] { flat.load(); }, {"model.norm.weight", "[8, 1]", "[8]"}));
  WrittenCheckpoint conv = WrittenCheckpoint::gpt2();
  conv.tensors.add("transformer.h.0.attn.c_attn.weight", {24, 8});
  EXPECT_TRUE(refuses([&] { conv.load(); }, {"c_attn.weight", "[24, 8]", "[8, 24]"}));
}

TEST(Checkpoint, RefusesADtypeThatWeightsCannotBe) {
  for (const char* dtype : {"I32", "U32"}) {
    WrittenCheckpoint file = WrittenCheckpoint::llama();
    file.tensors.add("model.layers.0.mlp.down_proj.weight", {8, 10}, dtype);
    EXPECT_TRUE(refuses([&] { file.load(); }, {"model.layers.0.mlp.down_proj.weight", dtype}));
  }
}

}  // namespace
