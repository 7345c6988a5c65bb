// tests/decoding/beam_test.cpp - beam search finds what an exhaustive search and one over whole
// texts find.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Pages = kv::Paged<codec::F32>;
using Ids = std::vector<Token>;

class Beams : public testing::Test {
 protected:
  static trial::Family family(Index vocabulary) {
    trial::Family result = trial::llama();
    result.config.vocabulary = vocabulary;
    return result;
  }

  explicit Beams(Index vocabulary = 5)
      : decoder_(trial::decoder_of(family(vocabulary))),
        prompt_(trial::random_tokens(decoder_.config(), 6, 2)),
        pool_(decoder_.config().geometry(), 3000, 16) {}

  std::vector<BeamAnswer> search(const BeamOptions& options) {
    Pages store(pool_);
    model::Workspace workspace(decoder_.config(), {.rows = std::max<Index>(options.beams, 4),
                                                   .logit_rows = options.beams,
                                                   .sequences = options.beams});
    auto answers = beam_search(decoder_, store, workspace, prompt_, options);
    EXPECT_EQ(store.end(), std::ssize(prompt_));
    return answers;
  }

  // The sum of log-probabilities of a text behind the prompt, and that of its end token.
  double sum_of(const Ids& text) {
    Pages store(pool_);
    model::Workspace workspace(decoder_.config(), {.rows = 48, .logit_rows = 48});
    Ids all = prompt_;
    all.insert(all.end(), text.begin(), text.end() - 1);
    model::Batch<Pages> batch;
    batch.add(store, all, model::Logits::all);
    decoder_.step(batch, workspace);
    double sum = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto row = static_cast<Index>(prompt_.size() + at) - 1;
      sum += log_probabilities(workspace.logits(row), text[at], 0).taken.value;
    }
    return sum;
  }

  model::Decoder decoder_;
  Ids prompt_;
  kv::PagePool<codec::F32> pool_;
};

TEST_F(Beams, OfOneAreGreedyDecoding) {
  Pages store(pool_);
  model::Workspace workspace(decoder_.config(), {.rows = 16});
  const Generation greedy = generate(decoder_, store, workspace, prompt_, {.max_new_tokens = 12});
  const auto answers = search({.beams = 1, .max_new_tokens = 12});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].tokens, greedy.tokens);
  EXPECT_FALSE(answers[0].ended);
}

TEST_F(Beams, AsManyAsThereAreTextsFindTheBestOfAll) {
  std::vector<std::pair<double, Ids>> all;
  for (Token a = 0; a < 5; ++a) {
    for (Token b = 0; b < 5; ++b) {
      for (Token c = 0; c < 5; ++c) all.push_back({sum_of({a, b, c}) / 3, {a, b, c}});
    }
  }
  std::ranges::sort(all, std::ranges::greater{}, &std::pair<double, Ids>::first);
  const auto answers = search({.beams = 125, .answers = 10, .max_new_tokens = 3});
  ASSERT_EQ(answers.size(), 10u);
  for (std::size_t at = 0; at < 10; ++at) {
    EXPECT_EQ(answers[at].tokens, all[at].second) << at;
    EXPECT_NEAR(answers[at].score, all[at].first, 1e-6);
  }
}

TEST_F(Beams, CountTheEndTokenInTheScore) {
  const auto free = search({.beams = 4, .max_new_tokens = 8});
  const Token end = free[0].tokens[2];
  const auto answers = search({.beams = 4, .answers = 4, .max_new_tokens = 8, .end_tokens = {end}});
  for (const BeamAnswer& answer : answers) {
    Ids text = answer.tokens;
    EXPECT_EQ(std::ranges::count(text, end), 0);
    if (answer.ended) text.push_back(end);
    EXPECT_NEAR(answer.score, sum_of(text) / static_cast<double>(text.size()), 1e-6);
  }
  EXPECT_TRUE(std::ranges::is_sorted(answers, std::ranges::greater{}, &BeamAnswer::score));
  EXPECT_TRUE(std::ranges::any_of(answers, &BeamAnswer::ended));
}

// The same search, spelled out over whole texts: every beam times every token, sorted.
class WrittenOut {
 public:
  WrittenOut(const BeamOptions& options, Index vocabulary) : options_(options), all_(vocabulary) {}

  template <class SumOf>
  std::vector<BeamAnswer> run(const SumOf& sum_of) {
    std::vector<std::pair<double, Ids>> running = {{0.0, {}}};
    const auto ends = std::ssize(options_.end_tokens);
    const auto looked_at = static_cast<std::size_t>(std::max<Index>(2, 1 + ends) * options_.beams);
    for (Index length = 1; length <= options_.max_new_tokens; ++length) {
      std::vector<std::pair<double, Ids>> ways;
      for (const auto& [sum, text] : running) {
        for (Token token = 0; token < all_; ++token) {
          Ids longer = text;
          longer.push_back(token);
          ways.push_back({sum_of(longer), longer});
        }
      }
      std::ranges::stable_sort(ways, std::ranges::greater{}, &std::pair<double, Ids>::first);
      running.clear();
      for (std::size_t at = 0; at < std::min(ways.size(), looked_at); ++at) {
        if (std::ssize(running) == options_.beams) break;
        auto& [sum, text] = ways[at];
        if (std::ranges::count(options_.end_tokens, text.back()) == 0) {
          running.push_back({sum, text});
        } else if (static_cast<Index>(at) < options_.beams) {
          text.pop_back();
          add(text, sum, length, true);
        }
      }
      const bool full = std::ssize(answers_) == options_.beams;
      if (running.empty() || (full && answers_.back().score >= score(running[0].first, length))) {
        return answers_;
      }
    }
    for (const auto& [sum, text] : running) add(text, sum, options_.max_new_tokens, false);
    return answers_;
  }

 private:
  double score(double sum, Index length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }
  void add(const Ids& text, double sum, Index length, bool ended) {
    answers_.push_back({text, score(sum, length), ended});
    std::ranges::stable_sort(answers_, std::ranges::greater{}, &BeamAnswer::score);
    if (std::ssize(answers_) > options_.beams) answers_.pop_back();
  }

  const BeamOptions& options_;
  Index all_;
  std::vector<BeamAnswer> answers_;
};

TEST_F(Beams, FindWhatASearchOverWholeTextsFinds) {
  const unsigned seeds = trial::kSlowBuild ? 1 : 4;
  const std::vector<double> penalties =
      trial::kSlowBuild ? std::vector{1.0} : std::vector{1.0, 0.0, 2.5};
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    prompt_ = trial::random_tokens(decoder_.config(), 6, seed);
    for (const Ids& ends : {Ids{}, Ids{0}, Ids{1, 3}, Ids{2, 4, 0}}) {
      for (double penalty : penalties) {
        const BeamOptions options = {.beams = 3,
                                     .answers = 3,
                                     .max_new_tokens = 6,
                                     .length_penalty = penalty,
                                     .end_tokens = ends};
        const auto expected =
            WrittenOut(options, 5).run([&](const Ids& text) { return sum_of(text); });
        const auto found = search(options);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t at = 0; at < found.size(); ++at) {
          EXPECT_EQ(found[at].tokens, expected[at].tokens) << seed << ", " << penalty;
          EXPECT_EQ(found[at].ended, expected[at].ended);
          EXPECT_NEAR(found[at].score, expected[at].score, 1e-6);
        }
      }
    }
  }
}

// With early stopping a running beam is no answer, however good.
TEST_F(Beams, StillRunningAreNoAnswersOnceThereAreEnough) {
  const auto free = search({.beams = 3, .answers = 3, .max_new_tokens = 30});
  const std::vector<Token> ends = {free[0].tokens[4], free[1].tokens[1]};
  const auto answers = search({.beams = 3,
                               .answers = 3,
                               .max_new_tokens = 30,
                               .length_penalty = 3,
                               .early_stopping = EarlyStopping::yes,
                               .end_tokens = ends});
  ASSERT_EQ(answers.size(), 3u);
  for (const BeamAnswer& answer : answers) EXPECT_TRUE(answer.ended);
}

TEST_F(Beams, EndWhenLearnedPositionsRunOut) {
  trial::Family learned = trial::gpt2();
  learned.config.max_positions = 16;
  const model::Decoder decoder = trial::decoder_of(learned);
  kv::PagePool<codec::F32> pool(learned.config.geometry(), 20, 16);
  Pages store(pool);
  model::Workspace workspace(learned.config, {.rows = 16, .logit_rows = 3, .sequences = 3});
  const Ids prompt = trial::random_tokens(learned.config, 6, 2);
  const auto answers =
      beam_search(decoder, store, workspace, prompt, {.beams = 3, .max_new_tokens = 50});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(std::ssize(answers[0].tokens), 16 - 6 + 1);
}

TEST_F(Beams, LeaveNoPageInUse) {
  search({.beams = 7, .max_new_tokens = 40, .end_tokens = {1, 3}});
  EXPECT_EQ(pool_.used_pages(), 0);
}

// Beams need pages of their own beside those of the prompt. If there is none, the search ends, and
// answers that were finished before stay.
TEST_F(Beams, EndWithTheAnswersSoFarWhenThePoolIsFull) {
  const auto free = search({.beams = 2, .answers = 2, .max_new_tokens = 30});
  const Token end = free[0].tokens[3];
  const auto limited = [&](Index pages) {
    kv::PagePool<codec::F32> pool(decoder_.config().geometry(), pages, 16);
    Pages store(pool);
    model::Workspace workspace(decoder_.config(), {.rows = 16, .logit_rows = 2, .sequences = 2});
    const BeamOptions options = {.beams = 2,
                                 .answers = 2,
                                 .max_new_tokens = 30,
                                 .length_penalty = 0,  // of which short answers gain
                                 .early_stopping = EarlyStopping::never,
                                 .end_tokens = {end}};
    auto answers = beam_search(decoder_, store, workspace, prompt_, options);
    EXPECT_EQ(store.end(), std::ssize(prompt_));
    EXPECT_EQ(pool.used_pages(), std::ssize(store.pages()));
    return answers;
  };
  bool finished = false;
  for (Index pages = 2; pages < 5; ++pages) {
    const auto answers = limited(pages);
    finished = finished || std::ranges::any_of(answers, &BeamAnswer::ended);
    ASSERT_EQ(answers.size(), 2u) << pages;
    for (const BeamAnswer& answer : answers) {
      Ids text = answer.tokens;
      if (answer.ended) text.push_back(end);
      ASSERT_FALSE(text.empty());
      EXPECT_LT(std::ssize(text), 30);
      EXPECT_NEAR(answer.score, sum_of(text), 1e-6) << pages;
    }
  }
  EXPECT_TRUE(finished);
}

TEST_F(Beams, ReuseCachedTokens) {
  const auto expected = search({.beams = 3, .max_new_tokens = 9});
  Pages store(pool_);
  model::Workspace workspace(decoder_.config(), {.rows = 4, .logit_rows = 3, .sequences = 3});
  generate(decoder_, store, workspace, prompt_, {.max_new_tokens = 5});
  const auto again =
      beam_search(decoder_, store, workspace, prompt_,
                  {.beams = 3, .max_new_tokens = 9, .cached_tokens = std::ssize(prompt_)});
  EXPECT_EQ(again[0].tokens, expected[0].tokens);
  EXPECT_EQ(again[0].score, expected[0].score);
}

// A model whose best token is known and whose others are all equal.
class EqualBeams : public testing::Test {
 protected:
  std::vector<BeamAnswer> search(const BeamOptions& options) {
    Pages store(pool_);
    model::Workspace workspace(decoder_.config(), {.rows = 4, .logit_rows = 2, .sequences = 2});
    return beam_search(decoder_, store, workspace, Ids{2, 3}, options);
  }

  model::Decoder decoder_ = reference::reciting_decoder(Ids{2, 3, 7, 8, 9, 5, 5, 5}, 12);
  kv::PagePool<codec::F32> pool_{decoder_.config().geometry(), 20, 16};
};

TEST_F(EqualBeams, GoByTheEarlierBeamThenTheLowerToken) {
  const auto one = search({.beams = 2, .answers = 2, .max_new_tokens = 1});
  EXPECT_EQ(one[0].tokens, Ids{7});
  EXPECT_EQ(one[1].tokens, Ids{0});
  // After 7 and 0, the second best are 7 with any other token, and 0 with 8.
  const auto two = search({.beams = 2, .answers = 2, .max_new_tokens = 2});
  EXPECT_EQ(two[0].tokens, (Ids{7, 8}));
  EXPECT_EQ(two[1].tokens, (Ids{7, 0}));
}

// The best tokens are 7, 0, 1 and 2. The end token 1 comes third, behind as many as there are
// beams, so that it makes no answer.
TEST_F(EqualBeams, EndOnlyByATokenAmongTheBest) {
  const auto answers = search({.beams = 2,
                               .answers = 2,
                               .max_new_tokens = 2,
                               .early_stopping = EarlyStopping::yes,
                               .end_tokens = {7, 1}});
  EXPECT_TRUE(answers[0].ended);
  EXPECT_TRUE(answers[0].tokens.empty());
  EXPECT_FALSE(answers[1].ended);
  EXPECT_EQ(answers[1].tokens, (Ids{0, 8}));
}

TEST_F(EqualBeams, NeverTakeABannedToken) {
  const auto answers =
      search({.beams = 2, .answers = 2, .max_new_tokens = 2, .banned_tokens = {7, 0}});
  EXPECT_EQ(answers[0].tokens, (Ids{1, 8}));
  EXPECT_EQ(answers[1].tokens, (Ids{2, 8}));
  EXPECT_THROW(search({.beams = 2, .banned_tokens = {12}}), std::invalid_argument);
}

TEST_F(Beams, RefuseInvalidOptions) {
  for (const BeamOptions& options : {BeamOptions{.beams = 0},
                                     {.beams = 2, .answers = 3},
                                     {.answers = 0},
                                     {.max_new_tokens = 0},
                                     {.length_penalty = std::nan("")}}) {
    EXPECT_THROW(check(options), std::invalid_argument);
  }
  Pages store(pool_);
  model::Workspace workspace(decoder_.config(), {.rows = 4, .logit_rows = 3, .sequences = 4});
  EXPECT_THROW(beam_search(decoder_, store, workspace, prompt_, {.beams = 4}),
               std::invalid_argument);
  EXPECT_THROW(beam_search(decoder_, store, workspace, {}, {.beams = 3}), std::invalid_argument);
  generate(decoder_, store, workspace, prompt_, {.max_new_tokens = 0});
  const Position held = store.end();
  EXPECT_THROW(beam_search(decoder_, store, workspace, Ids{1, 99}, {.beams = 3}),
               std::invalid_argument);
  const model::Decoder other = trial::decoder_of(family(6));
  model::Workspace foreign(other.config(), {.rows = 4, .logit_rows = 3, .sequences = 4});
  EXPECT_THROW(beam_search(decoder_, store, foreign, prompt_, {.beams = 3}), std::invalid_argument);
  EXPECT_EQ(store.end(), held);
}

// An answer of three tokens with a sum of -1.2; a beam of five with -1.5, at most ten.
TEST(BeamAnswers, MayBeBeatenByARunningBeam) {
  const auto goes_on = [](double penalty, EarlyStopping stopping) {
    const BeamOptions options = {
        .beams = 1, .max_new_tokens = 10, .length_penalty = penalty, .early_stopping = stopping};
    detail::Answers answers(options);
    answers.add({.tokens = {1, 2}}, -1.2, 3, true);
    return !answers.closed(-1.5, 5);
  };
  EXPECT_TRUE(goes_on(1, EarlyStopping::never));    // -0.4 beside -0.15
  EXPECT_FALSE(goes_on(0, EarlyStopping::never));   // -1.2 beside -1.5
  EXPECT_FALSE(goes_on(-1, EarlyStopping::never));  // -3.6 beside -7.5
  EXPECT_TRUE(goes_on(1, EarlyStopping::no));       // -0.4 beside -0.3
  EXPECT_FALSE(goes_on(1, EarlyStopping::yes));
}

TEST(BeamAnswers, AreTheBestOfThoseAdded) {
  const BeamOptions options = {.beams = 2};
  detail::Answers answers(options);
  answers.add({.tokens = {1}}, -3, 1, true);
  EXPECT_FALSE(answers.full());
  answers.add({.tokens = {2}}, -1, 1, true);
  answers.add({.tokens = {3}}, -2, 1, true);
  answers.add({.tokens = {4}}, -2, 1, true);  // no better than the last
  const auto best = std::move(answers).take(2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].tokens, (Ids{2}));
  EXPECT_EQ(best[1].tokens, (Ids{3}));
}

}  // namespace
}  // namespace decant::decoding
