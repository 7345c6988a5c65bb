// tests/checkpoints/tied_output_test.cpp - the output matrix: what the flag says, and what the file
// holds.
#include <decant/checkpoints/load_checkpoint.hpp>

#include "checkpoints/written_checkpoint.hpp"
#include "files/written_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using trial::refuses;
using trial::rows_of;
using trial::WrittenCheckpoint;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

// The embedding is all ones.
WrittenCheckpoint llama(const char* type = "llama") {
  WrittenCheckpoint file = WrittenCheckpoint::llama(type);
  file.tensors.add_values(kEmbedding, {11, 8}, std::vector<float>(88, 1.0f));
  file.tensors.remove(kHead);
  return file;
}
void add_head(WrittenCheckpoint& file, float number, const char* dtype = "F32") {
  file.tensors.add_values(kHead, {11, 8}, std::vector<float>(88, number), dtype);
}
float first(const kernels::Matrix& matrix) { return rows_of(matrix)[0][0]; }

TEST(TiedOutput, IsTheEmbeddingWhereTheFileHasNoOther) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  const Checkpoint loaded = file.load();
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST(TiedOutput, IsTheEmbeddingWhereTheFileHoldsItTwice) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  add_head(file, 1.0f);
  const Checkpoint loaded = file.load();
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_EQ(first(loaded.weights.embedding), 1.0f);
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST(TiedOutput, IsTheEmbeddingWithAWarningWhereTheFileHoldsAnother) {
  for (const char* dtype : {"F32", "BF16"}) {
    WrittenCheckpoint file = llama();
    file.config["tie_word_embeddings"] = true;
    add_head(file, 2.0f, dtype);
    const Checkpoint loaded = file.load();
    EXPECT_TRUE(loaded.weights.output.matrix.empty());
    EXPECT_EQ(first(loaded.weights.embedding), 1.0f);
    ASSERT_EQ(loaded.warnings.size(), 1u);
    EXPECT_NE(loaded.warnings[0].find("lm_head.weight differs from model.embed_tokens.weight"),
              std::string::npos);
  }
}

// The same bytes are other values in another format.
TEST(TiedOutput, IsComparedWithItsFormat) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  file.tensors.add_values(kEmbedding, {11, 8}, std::vector<float>(88, 1.0f), "BF16");
  add_head(file, 1.875f, "F16");  // 0x3F80, as 1 in bf16
  EXPECT_EQ(file.load().warnings.size(), 1u);
}

TEST(TiedOutput, IsAlsoTheEmbeddingWhereTheFileHoldsOnlyTheOutput) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  add_head(file, 3.0f);
  file.tensors.remove(kEmbedding);
  const Checkpoint loaded = file.load();
  EXPECT_TRUE(loaded.weights.output.matrix.empty());
  EXPECT_EQ(first(loaded.weights.embedding), 3.0f);
}

TEST(TiedOutput, MustBeThereInOneForm) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  file.tensors.remove(kEmbedding);
  EXPECT_TRUE(refuses([&] { file.load(); }, {kEmbedding, "is absent"}));
}

TEST(TiedOutput, MustHaveItsShapeEvenWhereItIsNotUsed) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = true;
  file.tensors.add(kHead, {10, 8});
  EXPECT_TRUE(refuses([&] { file.load(); }, {kHead, "[10, 8]", "[11, 8]"}));
}

TEST(UntiedOutput, IsTheMatrixOfTheFile) {
  for (float number : {1.0f, 2.0f}) {
    WrittenCheckpoint file = llama();
    file.config["tie_word_embeddings"] = false;
    add_head(file, number);
    const Checkpoint loaded = file.load();
    ASSERT_FALSE(loaded.weights.output.matrix.empty());
    EXPECT_EQ(first(loaded.weights.output.matrix), number);
    EXPECT_EQ(first(loaded.weights.embedding), 1.0f);
    EXPECT_TRUE(loaded.warnings.empty());
  }
}

TEST(UntiedOutput, MustBeInTheFile) {
  WrittenCheckpoint file = llama();
  file.config["tie_word_embeddings"] = false;
  EXPECT_TRUE(refuses([&] { file.load(); }, {kHead, "is absent"}));
}

TEST(UnstatedOutput, IsWhatTheFamilyIs) {
  for (const char* type : {"llama", "mistral", "qwen3"}) {
    WrittenCheckpoint file = llama(type);
    EXPECT_TRUE(refuses([&] { file.load(); }, {" is absent"})) << type;
  }
  WrittenCheckpoint untied = llama();
  add_head(untied, 2.0f);
  EXPECT_EQ(first(untied.load().weights.output.matrix), 2.0f);
  EXPECT_TRUE(llama("gemma").load().weights.output.matrix.empty());
  EXPECT_TRUE(WrittenCheckpoint::gpt2().load().weights.output.matrix.empty());
}

TEST(UntiedOutput, OfGpt2IsNotTransposed) {
  WrittenCheckpoint file = WrittenCheckpoint::gpt2();
  file.config["tie_word_embeddings"] = false;
  file.tensors.add(kHead, {11, 8});
  const Checkpoint loaded = file.load();
  EXPECT_EQ(rows_of(loaded.weights.output.matrix)[1][0], 9.0f);
}

}  // namespace
