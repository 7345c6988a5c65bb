// tests/checkpoints/embedding_test.cpp - hidden states, pooled vectors and scores of models without
// an output matrix, as transformers computed them in float64
// (tests/checkpoints/embeddings/make.py).
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/embedding.hpp>

#include "files/written_files.hpp"
#include "reference/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using Store = kv::Contiguous<codec::F32>;
using Doubles = std::vector<double>;

const std::filesystem::path kModels = DECANT_EMBEDDING_MODELS;

class Embeddings : public testing::TestWithParam<const char*> {
 protected:
  Embeddings()
      : checkpoint_(checkpoints::load_checkpoint(kModels / GetParam())),
        decoder_(checkpoint_.config, std::move(checkpoint_.weights)) {
    std::ifstream in(kModels / GetParam() / "expected.json");
    expected_ = nlohmann::json::parse(in);
  }

  // Within the rounding of f32, for values of a spread of about 4.
  static void expect_near(std::span<const float> actual, const Doubles& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    const auto [low, high] = std::ranges::minmax(expected);
    EXPECT_LE(reference::max_difference(actual, expected), 2e-5 * std::max(1.0, high - low));
  }

  checkpoints::Checkpoint checkpoint_;
  model::Decoder decoder_;
  nlohmann::json expected_;
};

TEST_P(Embeddings, AreThoseOfTransformers) {
  const bool scores = std::string(GetParam()) != "qwen3";
  EXPECT_EQ(checkpoint_.score.labels, scores ? std::ssize(expected_[0]["scores"]) : 0);
  model::Workspace workspace(decoder_.config(), {.rows = 5, .hidden_rows = 5});
  for (const auto& text : expected_) {
    const auto tokens = text["tokens"].get<std::vector<Token>>();
    Store store(decoder_.config().geometry(), 32);
    expect_near(embed(decoder_, store, workspace, tokens,
                      {.pooling = model::Pooling::mean, .normalise = false}),
                text["mean"].get<Doubles>());
    const auto last = embed(decoder_, store, workspace, tokens, {.normalise = false});
    const auto hidden = text["hidden"].get<std::vector<Doubles>>();
    expect_near(last, hidden.back());
    if (scores) expect_near(model::scores(checkpoint_.score, last), text["scores"].get<Doubles>());

    store.rewind(0);
    model::Batch<Store> batch;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      batch.clear();
      batch.add(store, {&tokens[at], 1}, model::Logits::none, nullptr, model::Hidden::last);
      decoder_.step(batch, workspace);
      expect_near(workspace.hidden(0), hidden[at]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Embeddings, testing::Values("qwen3", "llama_scores", "gpt2_reward"),
                         [](const auto& one) { return std::string(one.param); });

TEST(ModelsWithoutAnOutputMatrix, AreToldOfUnlessTheirClassNeedsNone) {
  const auto folder = kModels / "qwen3";
  EXPECT_EQ(checkpoints::load_checkpoint(folder).warnings.size(), 1u);
  const trial::Folder changed;
  std::filesystem::copy(folder, changed.path(), std::filesystem::copy_options::recursive);
  std::ifstream in(folder / "config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["architectures"] = {"Qwen3ForCausalLM"};
  changed.write("config.json", config.dump());
  EXPECT_TRUE(trial::refuses([&] { checkpoints::load_checkpoint(changed.path()); },
                             {"tensor lm_head.weight is absent"}));
}

TEST(ScoreHeads, OfAnotherShapeAreRefusedByName) {
  const trial::Folder changed;
  std::filesystem::copy(kModels / "gpt2_reward", changed.path(),
                        std::filesystem::copy_options::recursive);
  std::ifstream in(kModels / "gpt2_reward" / "model.safetensors", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const std::size_t at = bytes.find("\"shape\":[1,12]");
  ASSERT_NE(at, bytes.npos);
  bytes.replace(at, 14, "\"shape\":[2, 6]");
  changed.write("model.safetensors", bytes);
  EXPECT_TRUE(trial::refuses([&] { checkpoints::load_checkpoint(changed.path()); },
                             {"tensor score.weight has shape [2, 6], not [2, 12]"}));
}

}  // namespace
