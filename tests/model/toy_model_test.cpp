// tests/model/toy_model_test.cpp - the small model with known answers, by the reference and the
// library.
#include <decant/codec/plain.hpp>
#include <decant/model/decoder.hpp>

#include "model/run.hpp"
#include "reference/decoder.hpp"
#include "reference/to_weights.hpp"
#include "reference/toy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace {

using namespace decant;
using reference::ToyAnswer;
using trial::Rows;

model::Decoder toy_decoder(std::vector<Position> windows = {}) {
  const reference::Model toy = reference::toy(std::move(windows));
  return {toy.config, reference::to_weights(toy)};
}

template <class Row>
void expect_answer(const Row& last, const ToyAnswer& answer, double tolerance) {
  EXPECT_LE(reference::max_difference(std::span(last).first(4), answer.first_logits), tolerance);
  double sum = 0;
  for (auto logit : last) sum += std::abs(static_cast<double>(logit));
  EXPECT_NEAR(sum, answer.absolute_sum, 20 * tolerance);
}

TEST(ToyModel, HasItsDefinedWeights) {
  EXPECT_DOUBLE_EQ(reference::noise(0), 0.38331079483032227);
  EXPECT_DOUBLE_EQ(reference::noise(1), -0.06847202777862549);
  EXPECT_DOUBLE_EQ(reference::noise(2), -0.4735662341117859);
  EXPECT_DOUBLE_EQ(reference::noise(3), 0.47088193893432617);
  const reference::Model toy = reference::toy();
  EXPECT_NEAR(toy.embedding.cells.front(), 0.76662159, 1e-8);
  EXPECT_NEAR(toy.output.matrix.cells.back(), 0.08196034, 1e-8);
}

TEST(ToyModel, TheReferenceGivesTheKnownAnswers) {
  for (const ToyAnswer& answer : reference::toy_answers()) {
    const reference::Decoder reference(reference::toy(answer.windows));
    const reference::Matrix logits = reference.logits(answer.prompt);
    expect_answer(logits.row(logits.rows - 1), answer, 1e-6);
    EXPECT_EQ(reference.greedy(answer.prompt, 8), answer.greedy);
  }
}

TEST(ToyModel, TheLibraryGivesTheKnownAnswersCached) {
  for (const ToyAnswer& answer : reference::toy_answers()) {
    const model::Decoder decoder = toy_decoder(answer.windows);
    for (std::size_t chunk : {std::size_t{1}, std::size_t{3}, answer.prompt.size()}) {
      expect_answer(trial::chunked(decoder, answer.prompt, chunk).back(), answer, 1e-5);
    }
    EXPECT_EQ(trial::greedy(decoder, answer.prompt, 8), answer.greedy);
  }
}

TEST(ToyModel, TheLibraryGivesTheKnownAnswersRecomputed) {
  for (const ToyAnswer& answer : reference::toy_answers()) {
    const model::Decoder decoder = toy_decoder(answer.windows);
    EXPECT_EQ(trial::recomputed(decoder, answer.prompt), trial::chunked(decoder, answer.prompt, 1));
    EXPECT_EQ(trial::greedy_recomputed(decoder, answer.prompt, 8), answer.greedy);
  }
}

// One step for two sequences: the logits after the last token of each.
Rows step_both(const model::Decoder& decoder, model::Workspace& workspace,
               kv::Contiguous<codec::F32>& a, std::span<const Token> tokens_a,
               kv::Contiguous<codec::F32>& b, std::span<const Token> tokens_b) {
  model::Batch<kv::Contiguous<codec::F32>> batch;
  batch.add(a, tokens_a);
  batch.add(b, tokens_b);
  decoder.step(batch, workspace);
  Rows rows;
  for (Index i = 0; i < 2; ++i) {
    const std::span<const float> logits = workspace.logits(i);
    rows.emplace_back(logits.begin(), logits.end());
  }
  return rows;
}

// No padding exists: sequences of unequal length lie in one batch, each with its own positions.
TEST(ToyModel, PromptsOfUnequalLengthDecodeTogetherAsAlone) {
  const std::vector<Token> prompts[] = {{5, 6, 7, 8, 9}, {11, 12}};
  const model::Decoder decoder = toy_decoder();
  for (std::size_t first : {0u, 1u}) {
    std::vector<Token> a = prompts[first];
    std::vector<Token> b = prompts[1 - first];
    kv::Contiguous<codec::F32> store_a(decoder.config().geometry(), 16);
    kv::Contiguous<codec::F32> store_b(decoder.config().geometry(), 16);
    model::Workspace workspace(decoder.config(), {.rows = 8, .logit_rows = 2, .sequences = 2});
    trial::Runner<codec::F32> alone_a(decoder, 16);
    trial::Runner<codec::F32> alone_b(decoder, 16);
    for (int round = 0; round < 7; ++round) {
      const Rows both = step_both(decoder, workspace, store_a, a, store_b, b);
      EXPECT_EQ(both[0], alone_a.feed(a).back());
      EXPECT_EQ(both[1], alone_b.feed(b).back());
      a = {trial::argmax(both[0])};
      b = {trial::argmax(both[1])};
    }
    EXPECT_EQ(store_a.end(), std::ssize(prompts[first]) + 6);
    EXPECT_EQ(store_b.end(), std::ssize(prompts[1 - first]) + 6);
  }
}

TEST(ToyModel, RowsCopiedIntoAnotherStoreContinueTheSequence) {
  const model::Decoder decoder = toy_decoder();
  const kv::Geometry geometry = decoder.config().geometry();
  const std::vector<Token> prompt = reference::count_up(1, 8);
  const std::vector<Token> next = {9};
  trial::Runner<codec::F32> original(decoder, 32);
  trial::Runner<codec::F32> copy(decoder, 8);
  original.feed(prompt);
  copy.store().reserve(7);
  std::vector<float> key(8), value(8);
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    for (Index head = 0; head < geometry.heads; ++head) {
      for (Position at = 0; at < 7; ++at) {
        original.store().get(layer, head, at, key, value);
        copy.store().put(layer, head, at, key, value);
      }
    }
  }
  copy.store().publish(7);
  EXPECT_EQ(copy.store().end(), 7);
  EXPECT_EQ(copy.feed(next), original.feed(next));
}

TEST(ToyModel, AStoreWithoutRowsStartsAtPositionZero) {
  const model::Decoder decoder = toy_decoder();
  trial::Runner<codec::F32> sequence(decoder, 16);
  sequence.store().reserve(0);
  sequence.store().publish(0);
  EXPECT_EQ(sequence.store().end(), 0);
  const std::vector<Token> prompt = {5, 6, 7, 8, 9};
  EXPECT_EQ(sequence.feed(prompt), trial::chunked(decoder, prompt, 5));
}

TEST(ToyModel, ARewoundSequenceContinuesAsIfNothingHadFollowed) {
  const model::Decoder decoder = toy_decoder({4, 0});
  trial::Runner<codec::F32> sequence(decoder, 32);
  sequence.feed(reference::count_up(1, 11));
  sequence.store().rewind(6);
  const std::vector<Token> other = {40, 41};
  const std::vector<Token> whole = {1, 2, 3, 4, 5, 6, 40, 41};
  EXPECT_EQ(sequence.feed(other).back(), trial::chunked(decoder, whole, 8).back());
}

}  // namespace
