// tests/decoding/rejection_test.cpp - tokens verified by rejection have the distribution of the
// target, whatever the drafter.
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/model_drafter.hpp>
#include <decant/decoding/rejection.hpp>
#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

using Shares = std::vector<double>;

std::vector<Candidate> candidates_of(const Shares& shares) {
  std::vector<Candidate> all;
  for (std::size_t token = 0; token < shares.size(); ++token) {
    if (shares[token] > 0) all.push_back({static_cast<Token>(token), shares[token]});
  }
  return all;
}

// The distribution of the token that is taken, summed over all drafts and a grid of u.
Shares taken(const Shares& target, const Shares& draft, const Shares& told) {
  constexpr int kGrid = 20000;
  Shares result(target.size(), 0.0);
  for (std::size_t token = 0; token < draft.size(); ++token) {
    if (draft[token] == 0) continue;
    for (int step = 0; step < kGrid; ++step) {
      const Token chosen = verify(candidates_of(target), candidates_of(told),
                                  static_cast<Token>(token), (step + 0.5) / kGrid);
      result[static_cast<std::size_t>(chosen)] += draft[token] / kGrid;
    }
  }
  return result;
}

void expect_shares(const Shares& found, const Shares& expected) {
  for (std::size_t token = 0; token < expected.size(); ++token) {
    EXPECT_NEAR(found[token], expected[token], 2e-4) << token;
  }
}

// A drafter that drew from its two best tokens and gave that distribution, or the one before.
TEST(Verify, GivesTheTargetWhenTheDrafterGivesItsDistribution) {
  const Shares even(4, .25);
  const Shares cut = {4.0 / 7, 3.0 / 7, 0, 0};
  expect_shares(taken(even, cut, cut), even);
  expect_shares(taken(even, cut, {.4, .3, .2, .1}), {.357143, .357143, .071429, .214286});
}

TEST(Verify, GivesTheTargetOfOtherShapes) {
  const Shares target = {.6, .1, 0, .3};
  for (const Shares& draft :
       {Shares{.6, .1, 0, .3}, {0, 0, 1, 0}, {.1, .2, .3, .4}, {1, 0, 0, 0}}) {
    expect_shares(taken(target, draft, draft), target);
  }
}

// A draft without a distribution is accepted with its probability under the target.
TEST(Verify, TakesADraftWithoutADistributionForACertainOne) {
  const Shares target = {.6, .1, 0, .3};
  expect_shares(taken(target, {0, 1, 0, 0}, {}), target);
  expect_shares(taken(target, {0, 0, 1, 0}, {}), target);
}

TEST(Verify, RefusesADraftThatItsDrafterNeverDraws) {
  EXPECT_THROW(verify(candidates_of({.5, .5}), candidates_of({1, 0}), 1, .5),
               std::invalid_argument);
}

// The first three new tokens of many sequences, beside their exact distribution.
class Rejection : public testing::Test {
 protected:
  static constexpr Index kVocabulary = 4;
  static model::Decoder decoder(unsigned seed) {
    trial::Family family = trial::llama();
    family.config.vocabulary = kVocabulary;
    return {family.config,
            reference::to_weights(reference::random_model(family.config, seed, family.parts))};
  }

  // The probability of every text of three tokens.
  Shares exact(const SamplerOptions& sampler) {
    Shares shares(64, 0.0);
    for (Index text = 0; text < 64; ++text) {
      const std::vector<Token> tokens = {static_cast<Token>(text / 16),
                                         static_cast<Token>(text / 4 % 4),
                                         static_cast<Token>(text % 4)};
      std::vector<Token> all = prompt_;
      all.insert(all.end(), tokens.begin(), tokens.end());
      kv::Contiguous<codec::F32> store(target_.config().geometry(), 16);
      model::Workspace workspace(target_.config(), {.rows = 16, .logit_rows = 16});
      model::Batch<kv::Contiguous<codec::F32>> batch;
      batch.add(store, all, model::Logits::all);
      target_.step(batch, workspace);
      Sampler filters(sampler, kVocabulary);
      double share = 1;
      for (Index at = 0; at < 3; ++at) {
        const auto row = workspace.logits(std::ssize(prompt_) - 1 + at);
        share *= probability_of(filters.candidates(row), tokens[static_cast<std::size_t>(at)]);
      }
      shares[static_cast<std::size_t>(text)] = share;
    }
    return shares;
  }

  template <class Draft>
  double chi_square(const GenerateOptions& options, Index runs, const Draft& draft) {
    Shares counts(64, 0.0);
    for (Index run = 0; run < runs; ++run) {
      GenerateOptions own = options;
      own.sequence = static_cast<std::uint64_t>(run);
      kv::Contiguous<codec::F32> store(target_.config().geometry(), 16);
      const Generation result = draft(own, store);
      accepted_ += result.statistics.accepted_tokens;
      proposed_ += result.statistics.proposed_tokens;
      Index text = 0;
      for (Token token : result.tokens) text = 4 * text + token;
      counts[static_cast<std::size_t>(text)] += 1;
    }
    const Shares shares = exact(options.sampler);
    double sum = 0;
    for (std::size_t text = 0; text < 64; ++text) {
      const double expected = shares[text] * static_cast<double>(runs);
      if (expected > 0) {
        sum += (counts[text] - expected) * (counts[text] - expected) / expected;
      } else {
        EXPECT_EQ(counts[text], 0) << text;
      }
    }
    return sum;
  }

  std::vector<Token> prompt_ = {1, 2, 3, 1};
  model::Decoder target_ = decoder(5);
  model::Decoder small_ = decoder(6);
  model::Workspace workspace_{target_.config(), {.rows = 8, .logit_rows = 4}};
  Index accepted_ = 0, proposed_ = 0;
};

// 63 degrees of freedom: 115 is beyond all but one of 20,000.
TEST_F(Rejection, GivesTheDistributionOfTheTarget) {
  const Index runs = trial::kSlowBuild ? 150 : 8000;
  const auto sink = [](Token) { return true; };
  for (Verification verification : {Verification::rejection, Verification::agreement}) {
    const GenerateOptions options = {.max_new_tokens = 3,
                                     .sampler = {.temperature = 1.5, .seed = 11},
                                     .verification = verification};
    accepted_ = proposed_ = 0;
    const double found = chi_square(options, runs, [&](const GenerateOptions& own, auto& store) {
      kv::Contiguous<codec::F32> drafts(small_.config().geometry(), 16);
      model::Workspace room(small_.config(), {.rows = 8});
      ModelDrafter drafter(small_, drafts, room, own.sampler, own.sequence, 2);
      return generate(target_, store, workspace_, prompt_, own, sink, drafter);
    });
    EXPECT_LT(found, 115);
    EXPECT_GT(accepted_, 0);
    EXPECT_LT(accepted_, proposed_);
  }
}

TEST_F(Rejection, GivesItForDraftsWithoutADistributionToo) {
  const Index runs = trial::kSlowBuild ? 150 : 8000;
  const GenerateOptions options = {.max_new_tokens = 3,
                                   .sampler = {.temperature = 1.5, .seed = 12},
                                   .verification = Verification::rejection};
  const double found = chi_square(options, runs, [&](const GenerateOptions& own, auto& store) {
    NgramDrafter drafter{.longest = 2, .shortest = 1};
    return generate(target_, store, workspace_, prompt_, own, [](Token) { return true; }, drafter);
  });
  EXPECT_LT(found, 115);
  EXPECT_GT(accepted_, 0);
}

TEST_F(Rejection, AcceptsEveryDraftOfAModelThatDraftsForItself) {
  const GenerateOptions options = {.max_new_tokens = 8,
                                   .sampler = {.temperature = 1, .seed = 3},
                                   .verification = Verification::rejection};
  kv::Contiguous<codec::F32> store(target_.config().geometry(), 16);
  kv::Contiguous<codec::F32> drafts(target_.config().geometry(), 16);
  model::Workspace room(target_.config(), {.rows = 8});
  ModelDrafter drafter(target_, drafts, room, options.sampler, 0, 3);
  const Generation result =
      generate(target_, store, workspace_, prompt_, options, [](Token) { return true; }, drafter);
  EXPECT_EQ(result.statistics.accepted_tokens, result.statistics.proposed_tokens);
  EXPECT_GT(result.statistics.proposed_tokens, 0);
}

}  // namespace
}  // namespace decant::decoding
