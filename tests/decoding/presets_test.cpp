// tests/decoding/presets_test.cpp - the same options under the orders of several engines.
#include <decant/decoding/sampler.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace decant::decoding {
namespace {

// The tokens that are left under the order of a preset.
std::vector<Token> left(const SamplerOptions& preset, SamplerOptions options,
                        const std::vector<float>& logits) {
  options.order = preset.order;
  if (options.temperature == 0) options.temperature = 1;
  Sampler sampler(options, std::ssize(logits));
  std::vector<Token> tokens;
  for (const Candidate& candidate : sampler.candidates(logits)) tokens.push_back(candidate.token);
  return tokens;
}

using Ids = std::vector<Token>;

TEST(Presets, FilterTheTemperedDistributionOrTheModelsOwn) {
  const SamplerOptions sharp = {.temperature = .5, .top_p = .8};
  EXPECT_EQ(left(presets::hf(), sharp, {3, 2, 1}), (Ids{0}));
  EXPECT_EQ(left(presets::openai_vllm(), sharp, {3, 2, 1}), (Ids{0}));
  EXPECT_EQ(left(presets::llama_cpp(), sharp, {3, 2, 1}), (Ids{0, 1}));
  const SamplerOptions flat = {.temperature = 3, .min_p = .1};
  EXPECT_EQ(left(presets::hf(), flat, {3, 2, 0}), (Ids{0, 1, 2}));
  EXPECT_EQ(left(presets::openai_vllm(), flat, {3, 2, 0}), (Ids{0, 1, 2}));
  EXPECT_EQ(left(presets::llama_cpp(), flat, {3, 2, 0}), (Ids{0, 1}));
}

// Of .4, .3, .2 and .1, min-p of .6 keeps two, of whose mass the first is more than half.
TEST(Presets, TakeMinPBeforeOrAfterTopP) {
  std::vector<float> logits;
  for (double p : {.4, .3, .2, .1}) logits.push_back(static_cast<float>(std::log(p)));
  const SamplerOptions options = {.top_p = .5, .min_p = .6};
  EXPECT_EQ(left(presets::hf(), options, logits), (Ids{0, 1}));
  EXPECT_EQ(left(presets::openai_vllm(), options, logits), (Ids{0}));
  EXPECT_EQ(left(presets::llama_cpp(), options, logits), (Ids{0, 1}));
}

TEST(Presets, AreValidOptions) {
  for (const SamplerOptions& preset :
       {presets::hf(), presets::openai_vllm(), presets::llama_cpp()}) {
    EXPECT_NO_THROW(check(preset));
    EXPECT_EQ(preset.order.size(), kFilters.size());
  }
}

}  // namespace
}  // namespace decant::decoding
