// tests/checkpoints/memory_checkpoint_test.cpp - a checkpoint that never was a file, and any number
// of threads.
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/core/thread_pool.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/kernels/matrix.hpp>

#include "checkpoints/same_weights.hpp"
#include "checkpoints/written_checkpoint.hpp"

#include <gtest/gtest.h>

#include <memory_resource>
#include <string>

namespace {

using namespace decant;
using checkpoints::Checkpoint;
using checkpoints::CheckpointSource;
using trial::refuses;
using trial::same_weights;
using trial::WrittenCheckpoint;

// The files of a folder, in memory.
struct InMemory {
  explicit InMemory(const WrittenCheckpoint& written)
      : config(written.config.dump()),
        bytes(written.tensors.file()),
        file(files::Safetensors::parse(trial::bytes_of(bytes), "memory")) {
    source = {.name = "memory", .config = config, .tensors = file.tensors()};
  }

  std::string config, bytes;
  files::Safetensors file;
  CheckpointSource source;
};

TEST(CheckpointInMemory, IsTheOneOfAFolder) {
  for (const WrittenCheckpoint& written : {WrittenCheckpoint::llama(), WrittenCheckpoint::gpt2()}) {
    const Checkpoint expected = written.load();
    const Checkpoint loaded = checkpoints::load_checkpoint(InMemory(written).source);
    EXPECT_EQ(loaded.config, expected.config);
    EXPECT_EQ(loaded.end_tokens, expected.end_tokens);
    EXPECT_TRUE(same_weights(loaded.weights, expected.weights));
  }
}

TEST(CheckpointInMemory, TakesTheSpecialTokensOfAGenerationConfig) {
  const InMemory memory(WrittenCheckpoint::llama());
  CheckpointSource source = memory.source;
  source.generation_config = R"({"eos_token_id": [3, 4], "bos_token_id": 1})";
  const Checkpoint loaded = checkpoints::load_checkpoint(source);
  EXPECT_EQ(loaded.end_tokens, (std::vector<Token>{3, 4}));
  EXPECT_EQ(loaded.begin_token, 1);
  source.generation_config = "{";
  EXPECT_TRUE(refuses([&] { checkpoints::load_checkpoint(source); },
                      {"memory: generation_config.json", "not valid JSON"}));
}

TEST(CheckpointInMemory, IsRefusedWhereATensorIsAbsentUnexpectedOrShort) {
  const InMemory memory(WrittenCheckpoint::llama());
  const auto refused = [&](auto change, std::initializer_list<std::string_view> parts) {
    CheckpointSource source = memory.source;
    change(source.tensors);
    return refuses([&] { checkpoints::load_checkpoint(source); }, parts);
  };
  EXPECT_TRUE(refused([](auto& tensors) { tensors.erase("lm_head.weight"); },
                      {"memory: tensor lm_head.weight is absent"}));
  EXPECT_TRUE(refused([](auto& tensors) { tensors["more"] = tensors["lm_head.weight"]; },
                      {"memory: unexpected tensor more"}));
  EXPECT_TRUE(refused(
      [](auto& tensors) {
        auto& data = tensors["lm_head.weight"].data;
        data = data.first(data.size() - 1);
      },
      {"memory: tensor lm_head.weight has 351 bytes", "F32 [11, 8]"}));
  EXPECT_TRUE(refused([](auto& tensors) { tensors["lm_head.weight"].dtype = nullptr; },
                      {"lm_head.weight", "no format"}));
}

TEST(CheckpointInMemory, HasTheSamePanelsOnAnyNumberOfThreads) {
  WrittenCheckpoint written = WrittenCheckpoint::llama();
  written.config["vocab_size"] = 205;
  written.config["tie_word_embeddings"] = true;
  written.tensors.remove("lm_head.weight");
  written.tensors.add("model.embed_tokens.weight", {205, 8});
  for (const codec::Type type : {codec::Type::f32, codec::Type::bf16, codec::Type::q8_0}) {
    const Checkpoint expected = written.load({.weights = type});
    ThreadPool threads(3);
    const Checkpoint loaded = checkpoints::load_checkpoint(
        InMemory(written).source, {.weights = type}, {.executor = threads});
    EXPECT_TRUE(same_weights(loaded.weights, expected.weights)) << codec::name(type);
  }
}

// Gives its first `budget` buffers and then none.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  int budget = 1 << 30;
  int made = 0;
  int held = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (made == budget) throw std::bad_alloc();
    void* data = default_memory().allocate(bytes, alignment);
    made += 1;
    held += 1;
    return data;
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
    default_memory().deallocate(data, bytes, alignment);
    held -= 1;
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(CheckpointInMemory, LiesInTheMemoryOfItsCaller) {
  CountingMemory memory;
  const InMemory written(WrittenCheckpoint::llama());
  {
    const Checkpoint loaded = checkpoints::load_checkpoint(written.source, {}, {.memory = memory});
    EXPECT_EQ(memory.held, 2 + 2 * 4);  // embedding and output, and the matrices of two layers
  }
  EXPECT_EQ(memory.held, 0);
  memory = CountingMemory();
  memory.budget = 5;
  EXPECT_THROW(checkpoints::load_checkpoint(written.source, {}, {.memory = memory}),
               std::bad_alloc);
  EXPECT_EQ(memory.held, 0);
}

}  // namespace
