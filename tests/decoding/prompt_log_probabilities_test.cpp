// tests/decoding/prompt_log_probabilities_test.cpp - log-probabilities of a given text, in chunks
// of any size, are those of the same text when it was generated.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/prompt_log_probabilities.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

using F32 = codec::F32;
using Store = kv::Contiguous<F32>;

class PromptLogProbabilities : public testing::Test {
 protected:
  std::vector<LogProbabilities> of(std::span<const Token> tokens, Index chunk,
                                   const std::shared_ptr<const model::Adapter>& adapter = {}) {
    Store store(decoder_.config().geometry(), 64);
    model::Workspace workspace(decoder_.config(), {.rows = chunk, .logit_rows = chunk});
    auto result = prompt_log_probabilities(decoder_, store, workspace, tokens, 3, adapter);
    EXPECT_EQ(store.end(), std::ssize(tokens));
    return result;
  }
  static void expect_same(std::span<const LogProbabilities> a,
                          std::span<const LogProbabilities> b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t at = 0; at < a.size(); ++at) {
      EXPECT_EQ(a[at].taken, b[at].taken);
      EXPECT_EQ(a[at].top, b[at].top);
    }
  }

  model::Decoder decoder_ = trial::decoder_of(trial::llama());
  std::vector<Token> prompt_ = trial::random_tokens(decoder_.config(), 20, 3);
};

TEST_F(PromptLogProbabilities, AreThoseOfTheTokensWhenTheyWereGenerated) {
  const auto adapter = std::make_shared<model::Adapter>(trial::adapter_of(decoder_.config(), 3));
  for (const auto& own :
       {std::shared_ptr<const model::Adapter>(), std::shared_ptr<const model::Adapter>(adapter)}) {
    Store store(decoder_.config().geometry(), 64);
    model::Workspace workspace(decoder_.config(), {.rows = 8});
    const Generation generation = generate(decoder_, store, workspace, prompt_,
                                           {.max_new_tokens = 30,
                                            .sampler = {.temperature = 1.0, .seed = 2},
                                            .log_probabilities = 3,
                                            .adapter = own});
    std::vector<Token> text = prompt_;
    text.insert(text.end(), generation.tokens.begin(), generation.tokens.end());
    const auto whole = of(text, 64, own);
    ASSERT_EQ(whole.size(), text.size() - 1);
    expect_same(std::span(whole).last(30), generation.log_probabilities);
    for (const Index chunk : {1, 7, 49, 50}) expect_same(of(text, chunk, own), whole);
  }
}

TEST_F(PromptLogProbabilities, ReplaceWhatTheStoreHeld) {
  Store store(decoder_.config().geometry(), 64);
  model::Workspace workspace(decoder_.config(), {.rows = 8, .logit_rows = 8});
  generate(decoder_, store, workspace, std::vector<Token>{5, 6, 7}, {.max_new_tokens = 9});
  const auto again = prompt_log_probabilities(decoder_, store, workspace, prompt_, 3);
  expect_same(again, of(prompt_, 20));
  EXPECT_EQ(store.end(), 20);
}

TEST_F(PromptLogProbabilities, AreNoneForASingleToken) {
  EXPECT_TRUE(of(std::span(prompt_).first(1), 4).empty());
}

TEST_F(PromptLogProbabilities, AreRefusedForInvalidTextsAndTheStoreIsAsItWas) {
  Store store(decoder_.config().geometry(), 16);
  model::Workspace workspace(decoder_.config(), {.rows = 8, .logit_rows = 8});
  generate(decoder_, store, workspace, std::vector<Token>{5, 6, 7}, {.max_new_tokens = 1});
  const auto run = [&](std::vector<Token> tokens, Index top = 0) {
    prompt_log_probabilities(decoder_, store, workspace, tokens, top);
  };
  EXPECT_THROW(run({}), std::invalid_argument);
  EXPECT_THROW(run({1, -1}), std::invalid_argument);
  EXPECT_THROW(run({1, 2}, -1), std::invalid_argument);
  EXPECT_THROW(run(std::vector<Token>(17, 1)), CacheFull);
  EXPECT_EQ(store.end(), 3);
}

}  // namespace
}  // namespace decant::decoding
