// tests/checkpoints/gguf_checkpoint_test.cpp - models from GGUF files: our own small ones beside
// the same in a folder, and published ones beside reference outputs.
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/text/tokenizer.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "files/written_gguf.hpp"
#include "model/files.hpp"
#include "model/run.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using trial::refuses;
using trial::rows_of;
using trial::WrittenCheckpoint;
using trial::WrittenGguf;

Checkpoint load(const WrittenGguf& file, const checkpoints::LoadOptions& options = {}) {
  const trial::Folder folder;
  return checkpoints::load_checkpoint(folder.write("f.gguf", file.bytes()), options);
}
testing::AssertionResult model_refused(const WrittenGguf& file,
                                       std::initializer_list<std::string_view> parts) {
  return refuses([&] { load(file); }, parts);
}
model::Decoder decoder_of(Checkpoint checkpoint) {
  return {std::move(checkpoint.config), std::move(checkpoint.weights)};
}

TEST(GgufCheckpoint, HasTheWeightsOfTheSameModelInAFolder) {
  const Checkpoint file = load(WrittenGguf::llama());
  const Checkpoint folder = WrittenCheckpoint::llama().load();
  EXPECT_EQ(rows_of(file.weights.embedding), rows_of(folder.weights.embedding));
  EXPECT_EQ(rows_of(file.weights.output.matrix), rows_of(folder.weights.output.matrix));
  EXPECT_EQ(file.weights.output_norm.weight, folder.weights.output_norm.weight);
  ASSERT_EQ(file.weights.layers.size(), 2u);
  for (std::size_t at = 0; at < 2; ++at) {
    const model::LayerWeights& one = file.weights.layers[at];
    const model::LayerWeights& other = folder.weights.layers[at];
    EXPECT_EQ(one.attention_norm.weight, other.attention_norm.weight);
    EXPECT_EQ(rows_of(one.qkv.matrix), rows_of(other.qkv.matrix));
    EXPECT_EQ(rows_of(one.attention_output.matrix), rows_of(other.attention_output.matrix));
    EXPECT_EQ(one.feed_forward_norm.weight, other.feed_forward_norm.weight);
    EXPECT_EQ(rows_of(one.up.matrix), rows_of(other.up.matrix));
    EXPECT_EQ(rows_of(one.down.matrix), rows_of(other.down.matrix));
    EXPECT_TRUE(one.qkv.bias.empty() && one.query_norm.weight.empty());
  }
}

TEST(GgufCheckpoint, WithHalfSplitRotaryPairsIsTheModelOfTheFolderBitForBit) {
  WrittenGguf file = WrittenGguf::llama("qwen3");
  WrittenCheckpoint folder = WrittenCheckpoint::llama("qwen3");
  folder.config["num_key_value_heads"] = 1;
  for (const std::string layer : {"0.", "1."}) {
    file.add("blk." + layer + "attn_q_norm.weight", {6});
    file.add("blk." + layer + "attn_k_norm.weight", {6});
    folder.tensors.add("model.layers." + layer + "self_attn.q_norm.weight", {6});
    folder.tensors.add("model.layers." + layer + "self_attn.k_norm.weight", {6});
  }
  const std::vector<Token> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  EXPECT_EQ(trial::chunked(decoder_of(load(file)), tokens, 8),
            trial::chunked(decoder_of(folder.load()), tokens, 8));
}

TEST(GgufCheckpoint, ReadsBiases) {
  WrittenGguf file = WrittenGguf::llama("qwen2");
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.add_values(layer + "attn_q.bias", {12}, std::vector<float>(12, 1.0f));
    file.add_values(layer + "attn_k.bias", {6}, std::vector<float>(6, 2.0f));
    file.add_values(layer + "attn_v.bias", {6}, std::vector<float>(6, 3.0f));
  }
  const std::vector<float> bias = load(file).weights.layers[1].qkv.bias;
  ASSERT_EQ(bias.size(), 24u);
  EXPECT_EQ(bias[11], 1.0f);
  EXPECT_EQ(bias[12], 2.0f);
  EXPECT_EQ(bias[18], 3.0f);
  file.without("blk.1.attn_k.bias");
  EXPECT_TRUE(model_refused(file, {"f.gguf: tensor blk.1.attn_k.bias is absent"}));
}

TEST(GgufCheckpoint, UsesTheEmbeddingWhereThereIsNoOutput) {
  WrittenGguf file = WrittenGguf::llama();
  file.without("output.weight");
  EXPECT_TRUE(load(file).weights.output.matrix.empty());
}

TEST(GgufCheckpoint, RefusesTensorsThatAreMissingMisshapenOrTooMany) {
  WrittenGguf file = WrittenGguf::llama();
  file.without("blk.1.ffn_up.weight");
  EXPECT_TRUE(model_refused(file, {"f.gguf: tensor blk.1.ffn_up.weight is absent"}));
  file.add("blk.1.ffn_up.weight", {8, 10});
  EXPECT_TRUE(
      model_refused(file, {"f.gguf: tensor blk.1.ffn_up.weight has shape [8, 10], not [10, 8]"}));
  file = WrittenGguf::llama();
  file.add("blk.2.ffn_up.weight", {10, 8});
  EXPECT_TRUE(model_refused(file, {"f.gguf: unexpected tensor blk.2.ffn_up.weight"}));
  file = WrittenGguf::llama();
  file.tensor({"blk.0.ffn_up.weight", {8, 10}, 24, std::string(80, 'x')});
  EXPECT_TRUE(
      model_refused(file, {"f.gguf: tensor blk.0.ffn_up.weight is I8, which weights cannot be"}));
  file = WrittenGguf::llama();
  file.number("llama.block_count", 65536);
  EXPECT_TRUE(model_refused(file, {"f.gguf: tensor blk.2.attn_norm.weight is absent"}));
}

// A file of hidden size 32 whose matrices lie in blocks: the bytes of block b are all b mod 7.
WrittenGguf blocks(std::uint64_t format, std::size_t block_bytes) {
  WrittenGguf file = WrittenGguf::llama();
  file.tensors.clear();
  file.number("llama.embedding_length", 32);
  file.number("llama.feed_forward_length", 64);
  file.number("llama.attention.key_length", 16);
  file.number("llama.attention.value_length", 16);
  const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t columns) {
    std::string data;
    for (std::size_t block = 0; block < rows * columns / 32; ++block) {
      data += trial::little_endian(0x2C00, 2);  // a scale of 1/16
      data += std::string(block_bytes - 2, static_cast<char>(block % 7));
    }
    file.tensor({name, {columns, rows}, format, data});
  };
  matrix("token_embd.weight", 11, 32);
  file.add("output_norm.weight", {32});
  for (const std::string at : {"blk.0.", "blk.1."}) {
    file.add(at + "attn_norm.weight", {32});
    file.add(at + "ffn_norm.weight", {32});
    matrix(at + "attn_q.weight", 32, 32);
    matrix(at + "attn_k.weight", 16, 32);
    matrix(at + "attn_v.weight", 16, 32);
    matrix(at + "attn_output.weight", 32, 32);
    matrix(at + "ffn_gate.weight", 64, 32);
    matrix(at + "ffn_up.weight", 64, 32);
    matrix(at + "ffn_down.weight", 32, 64);
  }
  return file;
}

TEST(GgufCheckpoint, LeavesBlocksAsTheyAre) {
  const Checkpoint q8 = load(blocks(8, 34));
  EXPECT_EQ(q8.weights.embedding.type(), codec::Type::q8_0);
  EXPECT_EQ(q8.weights.layers[1].qkv.matrix.type(), codec::Type::q8_0);
  EXPECT_EQ(q8.weights.layers[1].down.matrix.type(), codec::Type::q8_0);
  const auto rows = rows_of(q8.weights.layers[1].up.matrix);
  ASSERT_EQ(rows.size(), 128u);
  EXPECT_EQ(rows[5], std::vector<float>(32, 5.0f / 16));
  EXPECT_EQ(rows[64 + 3], std::vector<float>(32, 3.0f / 16));
  const Checkpoint q4 = load(blocks(2, 18));
  EXPECT_EQ(q4.weights.embedding.type(), codec::Type::q4_0);
  const std::vector<float> row = rows_of(q4.weights.embedding)[4];
  EXPECT_EQ(row[0], (4.0f - 8) / 16);   // the low halves
  EXPECT_EQ(row[16], (0.0f - 8) / 16);  // the high halves
}

TEST(GgufCheckpoint, WidensStackedMatricesOfDifferentFormats) {
  WrittenGguf file = blocks(8, 34);
  file.add("blk.0.attn_k.weight", {16, 32});
  const Checkpoint loaded = load(file);
  EXPECT_EQ(loaded.weights.layers[0].qkv.matrix.type(), codec::Type::f32);
  EXPECT_EQ(loaded.weights.layers[1].qkv.matrix.type(), codec::Type::q8_0);
  const auto rows = rows_of(loaded.weights.layers[0].qkv.matrix);
  EXPECT_EQ(rows[3], std::vector<float>(32, 3.0f / 16));
  EXPECT_EQ(rows[32][5], 6.0f);
}

TEST(GgufCheckpoint, IsReadByItsConfigurationAlone) {
  const trial::Folder folder;
  const auto path = folder.write("f.gguf", WrittenGguf::llama().bytes());
  EXPECT_EQ(checkpoints::read_config(path).intermediate_size, 10);
  EXPECT_TRUE(
      refuses([&] { checkpoints::read_config(folder.path() / "none.gguf"); }, {"none.gguf"}));
  EXPECT_TRUE(
      refuses([&] { checkpoints::load_checkpoint(folder.path() / "none.gguf"); }, {"none.gguf"}));
}

// --- published files ---

TEST(PublishedGguf, OfTinyLlamaGivesTheReferenceLogits) {
  const std::filesystem::path folder = trial::kSharedData / "tiny" / "llama";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no checkpoint in " << folder;
  std::ifstream in(folder / "expected.json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  for (const auto& [name, tolerance] :
       {std::pair("tiny_llama_f32.gguf", 1e-5), std::pair("tiny_llama_f16.gguf", 1e-2)}) {
    const model::Decoder decoder = decoder_of(checkpoints::load_checkpoint(folder / name));
    for (std::size_t i = 0; i < expected["sequences"].size(); ++i) {
      const std::vector<Token> tokens = expected["sequences"][i];
      const std::vector<std::vector<double>> logits = expected["logits"][i];
      const trial::Rows rows = trial::chunked(decoder, tokens, 5);
      ASSERT_EQ(rows.size(), logits.size());
      EXPECT_LE(trial::worst_difference(rows, logits), tolerance) << name;
    }
  }
}

// The trained model: file names, and the prompt.
class Stories : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = trial::kSharedData / "stories260K";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no checkpoint in " << folder;
    const std::filesystem::path path = folder / "stories260K.gguf";
    decoder_.emplace(decoder_of(checkpoints::load_checkpoint(path)));
    tokenizer_.emplace(text::load_tokenizer(path));
    const std::string name = GetParam().first;
    tokens_ = trial::read_tokens(folder / (name + ".tokens.txt"));
    logits_ = trial::read_logits(folder / (name + ".logits.f32"), decoder_->config().vocabulary);
    text_ = trial::read_file(folder / (name + ".txt"));
    ASSERT_EQ(tokens_.size(), 201u);
    ASSERT_EQ(logits_.size(), 20u);
  }

  std::optional<model::Decoder> decoder_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<Token> tokens_;
  trial::Rows logits_;
  std::string text_;
};

TEST_P(Stories, GiveTheReferenceLogitsAndTokens) {
  const std::vector<Token> prompt = tokenizer_->encode(GetParam().second);
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens_.begin()));
  const trial::Rows rows = trial::chunked(*decoder_, tokens_, 64);
  EXPECT_LE(trial::worst_difference(rows, logits_), 5e-5);
  const Index count = std::ssize(tokens_) - std::ssize(prompt);
  const std::vector<Token> answer(tokens_.begin() + std::ssize(prompt), tokens_.end());
  EXPECT_EQ(trial::greedy(*decoder_, prompt, count), answer);
}

TEST_P(Stories, GiveTheReferenceText) {
  const std::string text = tokenizer_->decode(tokens_);
  ASSERT_GT(text.size(), 400u);
  EXPECT_EQ(text_.substr(0, text.size()), text);
  EXPECT_LE(text_.size(), text.size() + 1);
  EXPECT_EQ(tokenizer_->encode(text), tokens_);
}

INSTANTIATE_TEST_SUITE_P(Prompts, Stories,
                         ::testing::Values(std::pair("once", "Once upon a time"),
                                           std::pair("empty", "")),
                         [](const auto& one) { return std::string(one.param.first); });

TEST(PublishedGguf, OfStoriesHasItsSpecialTokens) {
  const std::filesystem::path path = trial::kSharedData / "stories260K" / "stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no checkpoint " << path;
  const Checkpoint loaded = checkpoints::load_checkpoint(path);
  EXPECT_EQ(loaded.begin_token, 1);
  EXPECT_EQ(loaded.end_tokens, (std::vector<Token>{2}));
  EXPECT_EQ(loaded.config.max_positions, 2048);
  EXPECT_EQ(loaded.config.norm_epsilon, 1e-5f);
  EXPECT_TRUE(loaded.warnings.empty());
}

}  // namespace
