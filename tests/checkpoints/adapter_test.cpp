// tests/checkpoints/adapter_test.cpp - adapters that PEFT wrote give the logits that PEFT computed
// from them in float64 (tests/checkpoints/peft/make.py).
#include <decant/checkpoints/load_adapter.hpp>
#include <decant/checkpoints/load_checkpoint.hpp>
#include <decant/model/decoder.hpp>

#include "model/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace decant;

class PeftAdapter : public testing::TestWithParam<const char*> {
 protected:
  PeftAdapter() {
    std::ifstream in(folder_ / "expected.json");
    const nlohmann::json expected = nlohmann::json::parse(in);
    tokens_ = expected["tokens"].get<std::vector<Token>>();
    logits_ = expected["logits"].get<std::vector<std::vector<double>>>();
    for (const auto& row : logits_) {
      const auto [low, high] = std::ranges::minmax(row);
      spread_ = std::max(spread_, high - low);
    }
  }

  static model::Decoder load(const std::filesystem::path& folder) {
    checkpoints::Checkpoint checkpoint = checkpoints::load_checkpoint(folder);
    return {std::move(checkpoint.config), std::move(checkpoint.weights)};
  }

  std::filesystem::path folder_ = std::filesystem::path(DECANT_PEFT_ADAPTERS) / GetParam();
  model::Decoder decoder_ = load(folder_.parent_path() / "model");
  std::vector<Token> tokens_;
  std::vector<std::vector<double>> logits_;
  double spread_ = 0;
};

TEST_P(PeftAdapter, GivesTheLogitsOfPeft) {
  const auto adapter = checkpoints::load_adapter(folder_, decoder_.config());
  for (std::size_t chunk : {1u, 5u, 12u}) {
    const trial::Rows rows = trial::chunked(decoder_, tokens_, chunk, adapter.get());
    ASSERT_EQ(rows.size(), logits_.size());
    EXPECT_LE(trial::worst_difference(rows, logits_), 2e-5 * spread_);
  }
}

TEST_P(PeftAdapter, ChangesTheLogits) {
  const trial::Rows rows = trial::chunked(decoder_, tokens_, 12);
  EXPECT_GT(trial::worst_difference(rows, logits_), 0.1 * spread_);
}

INSTANTIATE_TEST_SUITE_P(All, PeftAdapter,
                         testing::Values("llama/default", "llama/patterns", "llama/rank_stabilised",
                                         "gpt2/default"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(LoadedAdapter, HasTheSameIdWheneverItIsLoaded) {
  const std::filesystem::path llama = std::filesystem::path(DECANT_PEFT_ADAPTERS) / "llama";
  const model::Config config = checkpoints::read_config(llama / "model");
  const auto id = [&](const char* name) {
    return checkpoints::load_adapter(llama / name, config)->id();
  };
  EXPECT_EQ(id("default"), id("default"));
  EXPECT_NE(id("default"), id("patterns"));
}

}  // namespace
