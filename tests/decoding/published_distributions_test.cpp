// tests/decoding/published_distributions_test.cpp - filters against the distributions that another
// engine's tests publish; skipped if the shared data is absent.
#include <decant/decoding/sampler.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#ifndef DECANT_SHARED_DATA
#define DECANT_SHARED_DATA ""
#endif

namespace decant::decoding {
namespace {

SamplerOptions options_of(const nlohmann::json& entry) {
  const std::string filter = entry.at("test");
  SamplerOptions options{.temperature = entry.value("temp", 1.0),
                         .top_k = entry.value("k", Index{0})};
  if (filter == "top_p") options.top_p = entry.at("p");
  if (filter == "min_p") options.min_p = entry.at("p");
  return options;
}

std::vector<float> published_logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// The published lists are in several orders and may hold zeros; ours have neither.
std::vector<double> descending_positive(std::vector<double> probabilities) {
  std::erase(probabilities, 0.0);
  std::ranges::sort(probabilities, std::ranges::greater{});
  return probabilities;
}

TEST(PublishedDistributions, AgreeWithTheFilters) {
  const std::filesystem::path file =
      std::filesystem::path(DECANT_SHARED_DATA) / "sampling" / "llamacpp_sampling.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "shared data is absent: " << file;
  std::ifstream stream(file);
  const nlohmann::json entries = nlohmann::json::parse(stream);
  EXPECT_EQ(entries.size(), 19u);
  for (const nlohmann::json& entry : entries) {
    const std::vector<float> logits = published_logits_of(entry.at("probs"));
    const auto expected = descending_positive(entry.at("expected"));
    for (const auto& order :
         {presets::hf().order, presets::openai_vllm().order, presets::llama_cpp().order}) {
      SamplerOptions options = options_of(entry);
      options.order = order;
      Sampler sampler(options, std::ssize(logits));
      std::vector<double> actual;
      for (const Candidate& candidate : sampler.candidates(logits)) {
        actual.push_back(candidate.probability);
      }
      actual = descending_positive(actual);
      ASSERT_EQ(actual.size(), expected.size()) << entry;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 1e-5) << entry;
      }
    }
  }
}

}  // namespace
}  // namespace decant::decoding
