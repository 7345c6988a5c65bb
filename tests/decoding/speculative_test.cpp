// tests/decoding/speculative_test.cpp - with any drafter a run gives the tokens, and its store the
// rows, of a run without drafts.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/model_drafter.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using F32Store = kv::Contiguous<codec::F32>;
using Ids = std::vector<Token>;

// Proposes the right tokens, with a wrong one every so often.
struct KnowingDrafter {
  Ids whole;
  Index most = 4;
  unsigned wrong_of_ten = 0;
  std::mt19937 random{7};
  Ids said = {};

  std::span<const Token> propose(const History& history, Index room) {
    said.clear();
    for (std::size_t at = history.tokens.size();
         at < whole.size() && std::ssize(said) < std::min(most, room); ++at) {
      const bool wrong = random() % 10 < wrong_of_ten;
      said.push_back(wrong ? (whole[at] + 1) % 5 : whole[at]);
    }
    return said;
  }
};

// The result of a run: its tokens, and the rows of its store.
struct Outcome {
  Generation generation;
  std::vector<float> rows;
};

template <kv::Store S>
std::vector<float> rows_of(const S& store) {
  const kv::Geometry geometry = store.geometry();
  std::vector<float> all;
  std::vector<float> key(static_cast<std::size_t>(geometry.key_dim));
  std::vector<float> value(static_cast<std::size_t>(geometry.value_dim));
  for (Index layer = 0; layer < geometry.layers; ++layer) {
    for (Index head = 0; head < geometry.heads; ++head) {
      for (Position at = 0; at < store.end(); ++at) {
        store.get(layer, head, at, key, value);
        all.insert(all.end(), key.begin(), key.end());
        all.insert(all.end(), value.begin(), value.end());
      }
    }
  }
  return all;
}

class Speculative : public testing::Test {
 protected:
  Speculative() : decoder_(trial::decoder_of(trial::llama())) {
    prompt_ = trial::random_tokens(decoder_.config(), 9, 4);
  }

  template <Drafter D>
  Outcome run(const GenerateOptions& options, D& drafter, Index logit_rows = 9) {
    F32Store store(decoder_.config().geometry(), 120);
    model::Workspace workspace(decoder_.config(), {.rows = 16, .logit_rows = logit_rows});
    Outcome outcome;
    outcome.generation =
        generate(decoder_, store, workspace, prompt_, options, [](Token) { return true; }, drafter);
    outcome.rows = rows_of(store);
    return outcome;
  }
  Outcome plain(const GenerateOptions& options) {
    NoDrafts none;
    return run(options, none);
  }
  Ids whole(const Outcome& outcome) const {
    Ids tokens = prompt_;
    tokens.insert(tokens.end(), outcome.generation.tokens.begin(), outcome.generation.tokens.end());
    return tokens;
  }
  static void expect_same(const Outcome& expected, const Outcome& found) {
    EXPECT_EQ(found.generation.tokens, expected.generation.tokens);
    EXPECT_EQ(found.generation.reason, expected.generation.reason);
    EXPECT_EQ(found.generation.ended_by, expected.generation.ended_by);
    EXPECT_TRUE(trial::same_bits(expected.rows, found.rows));
  }

  model::Decoder decoder_;
  Ids prompt_;
};

std::vector<GenerateOptions> ways() {
  return {
      {.max_new_tokens = 40},
      {.max_new_tokens = 40, .sampler = {.temperature = 1.2, .top_k = 20, .seed = 5}},
      {.max_new_tokens = 40,
       .sampler = {.temperature = 0.9,
                   .seed = 6,
                   .penalties = {.repetition = 1.3, .frequency = .2, .dry = {.multiplier = 1}}}}};
}

TEST_F(Speculative, GivesTheTokensAndRowsOfARunWithoutDrafts) {
  for (const GenerateOptions& options : ways()) {
    const Outcome expected = plain(options);
    for (unsigned wrong : {0u, 3u, 10u}) {
      for (Index most : {1, 3, 8}) {
        KnowingDrafter knowing{.whole = whole(expected), .most = most, .wrong_of_ten = wrong};
        const Outcome found = run(options, knowing);
        expect_same(expected, found);
        const Statistics& statistics = found.generation.statistics;
        EXPECT_GT(statistics.proposed_tokens, 0);
        if (wrong == 0) {
          EXPECT_EQ(statistics.accepted_tokens, statistics.proposed_tokens);
        } else {
          EXPECT_LT(statistics.accepted_tokens, statistics.proposed_tokens);
        }
      }
    }
    NgramDrafter ngram;
    expect_same(expected, run(options, ngram));
  }
}

TEST_F(Speculative, EndsAtAnEndTokenAmongDrafts) {
  const Outcome free = plain({.max_new_tokens = 40});
  GenerateOptions options = {.max_new_tokens = 40,
                             .stop = {.end_tokens = {free.generation.tokens[6]}}};
  const Outcome expected = plain(options);
  EXPECT_EQ(expected.generation.reason, Reason::end_token);
  for (Index most : {2, 8}) {
    KnowingDrafter knowing{.whole = whole(free), .most = most};
    expect_same(expected, run(options, knowing));
  }
}

TEST_F(Speculative, LeavesNoDraftWhenTheSinkEndsOrThrows) {
  const Outcome free = plain({.max_new_tokens = 30});
  for (Index last : {1, 2, 5}) {
    for (unsigned way = 0; way < 4; ++way) {
      const bool throws = way % 2 == 1;
      F32Store store(decoder_.config().geometry(), 120);
      model::Workspace workspace(decoder_.config(), {.rows = 16, .logit_rows = 9});
      KnowingDrafter knowing{.whole = whole(free), .most = 8, .wrong_of_ten = way < 2 ? 0u : 10u};
      Index seen = 0;
      const auto sink = [&](Token) {
        if (++seen == last && throws) throw std::runtime_error("enough");
        return seen < last;
      };
      try {
        const auto result =
            generate(decoder_, store, workspace, prompt_, {.max_new_tokens = 30}, sink, knowing);
        EXPECT_EQ(std::ssize(result.tokens), last);
      } catch (const std::runtime_error&) {
        EXPECT_TRUE(throws);
      }
      const Position least = std::ssize(prompt_) + last - 1;
      EXPECT_EQ(store.end(), least);
      const auto rows = rows_of(store);
      F32Store again(decoder_.config().geometry(), 120);
      model::Batch<F32Store> batch;
      const Ids all = whole(free);
      batch.add(again, std::span(all).first(static_cast<std::size_t>(store.end())));
      model::Workspace large(decoder_.config(), {.rows = 60});
      decoder_.step(batch, large);
      EXPECT_TRUE(trial::same_bits(rows, rows_of(again)));
    }
  }
}

TEST_F(Speculative, GivesTheSameLogProbabilities) {
  const GenerateOptions options = {.max_new_tokens = 20, .log_probabilities = 2};
  const Outcome expected = plain(options);
  KnowingDrafter knowing{.whole = whole(expected), .most = 5, .wrong_of_ten = 3};
  const Outcome found = run(options, knowing);
  ASSERT_EQ(found.generation.log_probabilities.size(), 20u);
  for (std::size_t at = 0; at < 20; ++at) {
    EXPECT_EQ(found.generation.log_probabilities[at].taken,
              expected.generation.log_probabilities[at].taken);
    EXPECT_EQ(found.generation.log_probabilities[at].top,
              expected.generation.log_probabilities[at].top);
  }
}

TEST_F(Speculative, ProposesNothingWithOneRowOfLogits) {
  const Outcome expected = plain({.max_new_tokens = 10});
  KnowingDrafter knowing{.whole = whole(expected), .most = 5};
  const Outcome found = run({.max_new_tokens = 10}, knowing, 1);
  expect_same(expected, found);
  EXPECT_EQ(found.generation.statistics.proposed_tokens, 0);
}

// Drafts of the model itself are always accepted, those of another one are not; the tokens are the
// same.
TEST_F(Speculative, GivesTheSameTokensWithDraftsOfAnyModel) {
  for (const GenerateOptions& options : ways()) {
    const Outcome expected = plain(options);
    for (unsigned seed : {5u, 6u}) {
      trial::Family family = trial::llama();
      const model::Decoder other(family.config, reference::to_weights(reference::random_model(
                                                    family.config, seed, family.parts)));
      F32Store store(family.config.geometry(), 120);
      model::Workspace workspace(family.config, {.rows = 16});
      ModelDrafter drafter(other, store, workspace, options.sampler);
      const Outcome found = run(options, drafter);
      expect_same(expected, found);
      const Statistics& statistics = found.generation.statistics;
      if (seed == 5) {
        EXPECT_EQ(statistics.accepted_tokens, statistics.proposed_tokens);
      } else {
        EXPECT_LT(statistics.accepted_tokens, statistics.proposed_tokens);
      }
    }
  }
}

// The last draft is not fed, so that the drafter's store is one row short when all are accepted.
TEST_F(Speculative, DraftersDropExactlyTheRejectedTokens) {
  const trial::Family family = trial::llama();
  for (Index accepted = 0; accepted <= 4; ++accepted) {
    F32Store store(family.config.geometry(), 120);
    model::Workspace workspace(family.config, {.rows = 16});
    ModelDrafter drafter(decoder_, store, workspace, {});
    const auto first = drafter.propose({prompt_, 9}, 4);
    const Ids drafts(first.begin(), first.end());
    ASSERT_EQ(drafts.size(), 4u);
    EXPECT_EQ(store.end(), 9 - 1 + 4);
    Ids longer = prompt_;
    longer.insert(longer.end(), drafts.begin(), drafts.begin() + accepted);
    longer.push_back(accepted < 4 ? (drafts[static_cast<std::size_t>(accepted)] + 1) % 7 : 3);
    const auto second = drafter.propose({longer, 9}, 4);
    const Ids found(second.begin(), second.end());
    F32Store fresh(family.config.geometry(), 120);
    model::Workspace more(family.config, {.rows = 16});
    ModelDrafter anew(decoder_, fresh, more, {});
    const auto expected = anew.propose({longer, 9}, 4);
    EXPECT_TRUE(std::ranges::equal(found, expected)) << accepted << " accepted";
    EXPECT_TRUE(trial::same_bits(rows_of(store), rows_of(fresh)));
  }
}

TEST_F(Speculative, WorksOnPagedStoresAndRings) {
  trial::Family family = trial::windowed();
  family.config.windows = {20, 20, 20};
  const model::Decoder decoder = trial::decoder_of(family);
  const Ids prompt = trial::random_tokens(family.config, 30, 4);
  const auto sink = [](Token) { return true; };
  const auto continued = [&](auto& store, auto& drafter) {
    model::Workspace workspace(family.config, {.rows = 16, .logit_rows = 9});
    return generate(decoder, store, workspace, prompt, {.max_new_tokens = 60}, sink, drafter)
        .tokens;
  };
  F32Store plain_store(family.config.geometry(), 120);
  NoDrafts none;
  const Ids expected = continued(plain_store, none);
  Ids all = prompt;
  all.insert(all.end(), expected.begin(), expected.end());
  for (unsigned wrong : {0u, 4u, 10u}) {
    KnowingDrafter knowing{.whole = all, .most = 8, .wrong_of_ten = wrong};
    kv::PagePool<codec::F32> pool(family.config.geometry(), 8, 16);
    kv::Paged<codec::F32> paged(pool);
    EXPECT_EQ(continued(paged, knowing), expected);
    for (Index chunk : {1, 4, 9}) {
      kv::Ring<codec::F32> ring(family.config.geometry(), 20, chunk);
      EXPECT_EQ(continued(ring, knowing), expected) << chunk;
    }
  }
}

// Another sequence takes all pages but one, which has room for a token and not for drafts.
TEST_F(Speculative, GoesOnWithoutDraftsWhenThePoolIsFull) {
  kv::PagePool<codec::F32> pool(decoder_.config().geometry(), 5, 16);
  kv::Paged<codec::F32> other(pool);
  kv::Paged<codec::F32> store(pool);
  model::Workspace workspace(decoder_.config(), {.rows = 16, .logit_rows = 9});
  const Outcome free = plain({.max_new_tokens = 20});
  KnowingDrafter knowing{.whole = whole(free), .most = 8, .wrong_of_ten = 10};
  Index seen = 0;
  const auto sink = [&](Token) {
    if (++seen == 1) other.reserve(64);
    return true;
  };
  const auto result =
      generate(decoder_, store, workspace, prompt_, {.max_new_tokens = 20}, sink, knowing);
  EXPECT_EQ(result.reason, Reason::cache_full);
  EXPECT_EQ(store.end(), 16);
  ASSERT_EQ(result.tokens.size(), 16u - 9 + 1);
  EXPECT_TRUE(std::ranges::equal(result.tokens, std::span(free.generation.tokens).first(8)));
}

TEST_F(Speculative, ShowsMasksTheTextOfARunWithoutDrafts) {
  const Outcome free = plain({.max_new_tokens = 30});
  Ids ends = {free.generation.tokens[3], free.generation.tokens[9]};
  std::vector<std::uint32_t> words(
      static_cast<std::size_t>((decoder_.config().vocabulary + 31) / 32), 0xFFFFFFFFu);
  std::vector<std::size_t> lengths;
  GenerateOptions options = {.max_new_tokens = 30,
                             .stop = {.end_tokens = ends, .min_new_tokens = 6},
                             .allowed = [&](std::span<const Token> text) {
                               lengths.push_back(text.size());
                               words[0] = text.size() % 3 == 1 ? 0x55555555u : 0xFFFFFFFFu;
                               return std::span<const std::uint32_t>(words);
                             }};
  const Outcome expected = plain(options);
  const auto seen = std::exchange(lengths, {});
  KnowingDrafter knowing{.whole = whole(expected), .most = 5, .wrong_of_ten = 3};
  expect_same(expected, run(options, knowing));
  EXPECT_EQ(lengths, seen);
  options.recompute = true;
  const Outcome recomputed = run(options, knowing);
  EXPECT_EQ(recomputed.generation.tokens, expected.generation.tokens);
  EXPECT_EQ(recomputed.generation.statistics.proposed_tokens, 0);
}

// A drafter whose store is small proposes fewer drafts; one whose ring cannot be rewound far
// recomputes.
TEST_F(Speculative, TakesDraftersWithSmallStores) {
  const trial::Family family = trial::llama();
  const Outcome expected = plain({.max_new_tokens = 40});
  F32Store small(family.config.geometry(), 24);
  model::Workspace workspace(family.config, {.rows = 16});
  ModelDrafter drafter(decoder_, small, workspace, {});
  const Outcome found = run({.max_new_tokens = 40}, drafter);
  expect_same(expected, found);
  EXPECT_GT(found.generation.statistics.accepted_tokens, 0);
  EXPECT_LE(small.end(), 24);

  trial::Family windowed = trial::llama();
  windowed.config.windows.assign(static_cast<std::size_t>(windowed.config.layers), 20);
  const model::Decoder looking_back = trial::decoder_of(windowed);
  kv::Ring<codec::F32> ring(windowed.config.geometry(), 20, 1);
  model::Workspace room(windowed.config, {.rows = 16});
  ModelDrafter circular(looking_back, ring, room, {});
  expect_same(expected, run({.max_new_tokens = 40}, circular));
}

// Of a vocabulary that is padded, or lacks tokens of the text.
TEST_F(Speculative, TakesDraftsOfAVocabularyOfAnotherSize) {
  for (Index more : {1, 23, -1, -30}) {
    trial::Family family = trial::llama();
    family.config.vocabulary += more;
    const model::Decoder other = trial::decoder_of(family);
    F32Store store(family.config.geometry(), 120);
    model::Workspace workspace(family.config, {.rows = 16});
    for (const double temperature : {0.0, 1.5}) {
      const GenerateOptions options = {.max_new_tokens = 40,
                                       .sampler = {.temperature = temperature, .seed = 5}};
      store.rewind(0);
      ModelDrafter drafter(other, store, workspace, options.sampler);
      expect_same(plain(options), run(options, drafter));
    }
  }
}

// Every second draft is a token that the model does not know.
TEST_F(Speculative, CutsDraftsBeforeATokenOfThePadding) {
  struct Padded {
    KnowingDrafter knowing;
    Index known;
    Ids drafts;

    Index vocabulary() const { return known + 7; }
    std::span<const Token> propose(const History& history, Index most) {
      const auto right = knowing.propose(history, most);
      drafts.assign(right.begin(), right.end());
      if (drafts.size() > 1) drafts[1] = static_cast<Token>(known + 3);
      return drafts;
    }
  };
  const Outcome expected = plain({.max_new_tokens = 30});
  Padded drafter{{.whole = whole(expected), .most = 4}, decoder_.config().vocabulary, {}};
  const Outcome drafted = run({.max_new_tokens = 30}, drafter);
  expect_same(expected, drafted);
  EXPECT_GT(drafted.generation.statistics.accepted_tokens, 10);
}

TEST(Ngram, ProposesWhatFollowedTheLastTokens) {
  const auto draft = [](const Ids& tokens, NgramDrafter drafter = {}, Index room = 100) {
    const auto found = drafter.propose({tokens, 0}, room);
    return Ids(found.begin(), found.end());
  };
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}), (Ids{3, 4, 5, 1, 2}));
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}, {.most = 2}), (Ids{3, 4}));
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}, {}, 1), (Ids{3}));
  EXPECT_EQ(draft({1, 2, 8, 1, 2, 9, 1, 2}, {.most = 1}), (Ids{9}));        // the latest
  EXPECT_EQ(draft({7, 1, 2, 8, 1, 2, 9, 7, 1, 2}, {.most = 1}), (Ids{8}));  // the longest
  EXPECT_EQ(draft({1, 2, 3, 4}), Ids{});
  EXPECT_EQ(draft({5, 1, 5}), Ids{});
  EXPECT_EQ(draft({5, 1, 5}, {.shortest = 1}), (Ids{1, 5}));
  EXPECT_EQ(draft({4, 4, 4, 4}, {.most = 1}), (Ids{4}));
  EXPECT_EQ(draft({}), Ids{});
  EXPECT_EQ(draft({1}), Ids{});
  EXPECT_THROW(draft({1, 2}, {.longest = 1, .shortest = 2}), std::invalid_argument);
}

}  // namespace
}  // namespace decant::decoding
