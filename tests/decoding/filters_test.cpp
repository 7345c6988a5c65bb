// tests/decoding/filters_test.cpp - which tokens each filter keeps, ties, and the two orders of
// temperature.
#include <decant/decoding/sampler.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace decant::decoding {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<Candidate> survivors(const std::vector<float>& logits, SamplerOptions options) {
  if (options.temperature == 0) options.temperature = 1;
  Sampler sampler(options, std::ssize(logits));
  const auto candidates = sampler.candidates(logits);
  return {candidates.begin(), candidates.end()};
}

std::vector<Token> ids(const std::vector<float>& logits, const SamplerOptions& options) {
  std::vector<Token> tokens;
  for (const Candidate& candidate : survivors(logits, options)) tokens.push_back(candidate.token);
  return tokens;
}

std::vector<Token> first(Token count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

void expect_probabilities(const std::vector<Candidate>& candidates,
                          const std::vector<double>& expected) {
  ASSERT_EQ(candidates.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(candidates[i].probability, expected[i], 6e-5) << i;
  }
}

using Tokens = std::vector<Token>;

TEST(TopP, KeepsTheTokenThatCrosses) {
  EXPECT_EQ(ids(logits_of({.4, .3, .2, .1}), {.top_p = .8}), first(3));
  EXPECT_EQ(ids(logits_of({.5, .3, .15, .05}), {.top_p = .6}), first(2));
  EXPECT_EQ(ids(logits_of({.5, .41, .09}), {.top_p = .9}), first(2));
  EXPECT_EQ(ids(logits_of({.5, .35, .1, .05}), {.top_p = .9}), first(3));
  EXPECT_EQ(ids(logits_of({.95, .05}), {.top_p = .9}), first(1));
}

TEST(TopP, OfOneKeepsEverything) {
  EXPECT_EQ(ids(logits_of(std::vector<double>(10, .1)), {.top_p = 1.0}), first(10));
  std::vector<float> steep = {0, -30, -60, -700};  // the last is far below a double's last place
  EXPECT_EQ(ids(steep, {.top_p = 1.0}), first(4));
}

TEST(TopP, OfZeroKeepsTheBest) {
  EXPECT_EQ(ids(logits_of({.1, .2, .4, .3}), {.top_p = 0.0}), (Tokens{2}));
}

TEST(TopP, OfEqualTokensKeepsTheLowerIds) {
  EXPECT_EQ(ids({1, 1, 1, 1}, {.top_p = .5}), first(2));
  EXPECT_EQ(ids({1, 1, 1, 1}, {.top_p = 0.0}), first(1));
  EXPECT_EQ(ids({0, 2, 2, 2}, {.top_p = .6}), (Tokens{1, 2}));
}

// More survivors than the sampler sorts at a time, against a full sort.
TEST(TopP, OfALargeVocabularyEqualsAFullSort) {
  constexpr std::size_t kVocabulary = 5000;
  std::vector<float> logits(kVocabulary);
  for (std::size_t i = 0; i < kVocabulary; ++i) {
    logits[i] = static_cast<float>(static_cast<double>(i * 7919 % 1250) / 500.0);  // with ties
  }
  std::vector<Token> order = first(static_cast<Token>(kVocabulary));
  std::ranges::stable_sort(order, [&](Token a, Token b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  double total = 0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit));
  for (double p : {.001, .05, .3, .5, .9, .999}) {
    std::vector<Token> expected;
    double mass = 0;
    for (std::size_t i = 0; i < kVocabulary && mass < p * total; ++i) {
      expected.push_back(order[i]);
      mass += std::exp(static_cast<double>(logits[static_cast<std::size_t>(order[i])]));
    }
    std::ranges::sort(expected);
    EXPECT_EQ(ids(logits, {.top_p = p}), expected) << p;
  }
}

TEST(TopP, CountsTheMassThatTopKLeft) {
  // Of the kept .4 and .3 the first has 4/7 of the mass; alone it would have .4.
  EXPECT_EQ(ids(logits_of({.4, .3, .2, .1}), {.top_k = 2, .top_p = .5}), first(1));
  EXPECT_EQ(ids(logits_of({.4, .3, .2, .1}), {.top_p = .5}), first(2));
}

TEST(TopK, KeepsExactlyKAndTheLowerIdOfEqualTokens) {
  const std::vector<float> tied = {std::log(.4f), std::log(.3f), std::log(.3f), -kInfinity};
  EXPECT_EQ(ids(tied, {.top_k = 2}), first(2));
  EXPECT_EQ(ids({1, 1, 1, 1}, {.top_k = 1}), first(1));
  EXPECT_EQ(ids({1, 1, 1, 1}, {.top_k = 3}), first(3));
  EXPECT_EQ(ids({-2, -1, 0, .8f, 0, .1f, .3f, .4f, .5f, .6f, .7f, -3}, {.top_k = 1}), (Tokens{3}));
  EXPECT_EQ(ids({0, 1, 0, 2, 1, 1}, {.top_k = 3}), (Tokens{1, 3, 4}));
}

TEST(TopK, NeverKeepsABannedToken) {
  EXPECT_EQ(ids({-kInfinity, 3, -kInfinity, 1}, {.top_k = 3}), (Tokens{1, 3}));
  EXPECT_EQ(ids({-kInfinity, 3, -kInfinity, 1}, {.top_k = 0}), (Tokens{1, 3}));
}

TEST(TopK, BeyondTheVocabularyKeepsEverything) {
  EXPECT_EQ(ids({3, 1, 2}, {.top_k = 3}), first(3));
  EXPECT_EQ(ids({3, 1, 2}, {.top_k = std::numeric_limits<Index>::max()}), first(3));
}

TEST(TopK, OfALargeVocabularyEqualsAFullSort) {
  constexpr std::size_t kVocabulary = 3000;
  std::vector<float> logits(kVocabulary);
  for (std::size_t i = 0; i < kVocabulary; ++i) {
    logits[i] = static_cast<float>(i * 7919 % 600);
  }
  std::vector<Token> order = first(static_cast<Token>(kVocabulary));
  std::ranges::stable_sort(order, [&](Token a, Token b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  for (Index k : {1, 2, 39, 40, 1000, 2999}) {
    std::vector<Token> expected(order.begin(), order.begin() + k);
    std::ranges::sort(expected);
    EXPECT_EQ(ids(logits, {.temperature = 1e3, .top_k = k}), expected) << k;
  }
}

TEST(MinP, IsRelativeToTheBestAndKeepsAtLeastOne) {
  const std::vector<float> logits = logits_of({.1, .2, .3, .4});
  EXPECT_EQ(ids(logits, {.min_p = .24}), first(4));
  EXPECT_EQ(ids(logits, {.min_p = .26}), (Tokens{1, 2, 3}));
  EXPECT_EQ(ids(logits, {.min_p = 1.0}), (Tokens{3}));
  EXPECT_EQ(ids(logits, {.min_p = 1.05}), (Tokens{3}));
  EXPECT_EQ(ids({2, 1, 2}, {.min_p = 1.0}), (Tokens{0, 2}));
  EXPECT_EQ(ids({2, 1, 2}, {.min_p = 1.05}), (Tokens{0}));
}

TEST(FilterOrder, TemperatureFirstLetsFiltersSeeTheTemperedDistribution) {
  const auto sharp = survivors({3, 2, 1}, {.temperature = .5, .top_p = .8});
  expect_probabilities(sharp, {1.0});
  const auto flat = survivors({3, 2, 0}, {.temperature = 3, .min_p = .1});
  expect_probabilities(flat, {.4798, .3438, .1765});
}

TEST(FilterOrder, TemperatureLastLetsFiltersSeeTheModelsOwnDistribution) {
  const std::vector<Filter> kLast = presets::llama_cpp().order;
  const auto sharp = survivors({3, 2, 1}, {.temperature = .5, .top_p = .8, .order = kLast});
  ASSERT_EQ(sharp.size(), 2u);
  EXPECT_NEAR(sharp[1].probability / sharp[0].probability, std::exp(-2.0), 1e-12);
  const auto flat = survivors({3, 2, 0}, {.temperature = 3, .min_p = .1, .order = kLast});
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_NEAR(flat[1].probability / flat[0].probability, std::exp(-1.0 / 3), 1e-12);
}

TEST(FilterOrder, TopPRunsBeforeMinP) {
  // Were min-p first, the .4 would be more than half of the mass of .4 and .3.
  EXPECT_EQ(ids(logits_of({.4, .3, .2, .1}), {.top_p = .5, .min_p = .6}), first(2));
}

TEST(FilterOrder, IsGivenByTheCaller) {
  const std::vector<float> logits = logits_of({.4, .3, .2, .1});
  EXPECT_EQ(ids(logits, {.top_p = .5, .min_p = .6, .order = {Filter::min_p, Filter::top_p}}),
            first(1));
  EXPECT_EQ(ids(logits, {.top_k = 2, .top_p = .5, .order = {Filter::top_p, Filter::top_k}}),
            first(2));
  EXPECT_EQ(ids(logits, {.top_k = 2, .top_p = .5, .order = {Filter::top_k, Filter::top_p}}),
            first(1));
}

TEST(FilterOrder, HasEveryFilterThatIsSetExactlyOnce) {
  EXPECT_THROW(check(SamplerOptions{.top_k = 2, .order = {Filter::top_p}}), std::invalid_argument);
  EXPECT_THROW(check(SamplerOptions{.temperature = .5, .order = {}}), std::invalid_argument);
  EXPECT_THROW(check(SamplerOptions{.order = {Filter::top_p, Filter::top_p}}),
               std::invalid_argument);
  EXPECT_NO_THROW(check(SamplerOptions{.order = {}}));
}

// Entropy 1.2799 nats; the tokens' information is 0.916, 1.204, 1.609 and 2.303.
TEST(Typical, KeepsTokensNearestToTheEntropy) {
  const std::vector<float> logits = logits_of({.4, .3, .2, .1});
  EXPECT_EQ(ids(logits, {.typical = .2}), (Tokens{1}));
  EXPECT_EQ(ids(logits, {.typical = .45}), (Tokens{1, 2}));  // 0.33 off, before 0.36
  EXPECT_EQ(ids(logits, {.typical = .55}), (Tokens{0, 1, 2}));
  EXPECT_EQ(ids(logits, {.typical = .95}), first(4));
  EXPECT_EQ(ids(logits, {.typical = 0}), (Tokens{1}));
  EXPECT_EQ(ids(std::vector<float>(4, 1.0f), {.typical = .5}), first(2));  // ties by lower id
}

TEST(Typical, DropsTheMostProbableIfItsInformationIsFarFromTheEntropy) {
  // Entropy 3.13; a token of .4 tells 0.92, those of .01 tell 4.61.
  std::vector<double> probabilities(60, .01);
  probabilities.push_back(.4);
  EXPECT_EQ(ids(logits_of(probabilities), {.typical = .295}), first(30));
}

// Mean 2, deviation sqrt(2).
TEST(TopNSigma, KeepsLogitsNearTheBest) {
  const std::vector<float> logits = {0, 1, 2, 3, 4};
  EXPECT_EQ(ids(logits, {.top_n_sigma = .5}), (Tokens{4}));
  EXPECT_EQ(ids(logits, {.top_n_sigma = .8}), (Tokens{3, 4}));
  EXPECT_EQ(ids(logits, {.top_n_sigma = 1.5}), (Tokens{2, 3, 4}));
  EXPECT_EQ(ids(logits, {.top_n_sigma = 3}), first(5));
  EXPECT_EQ(ids({0, 1, -kInfinity, 2, 3, 4}, {.top_n_sigma = .8}), (Tokens{4, 5}));
  EXPECT_EQ(ids(logits, {.temperature = 7, .top_n_sigma = .8}), (Tokens{3, 4}));
}

TEST(Xtc, DropsAllButTheLeastProbableAtOrAboveTheThreshold) {
  const std::vector<float> logits = logits_of({.2, .4, .1, .3});
  const auto kept = [&](double threshold) {
    return ids(logits, {.xtc = 1, .xtc_threshold = threshold});
  };
  EXPECT_EQ(kept(.09), (Tokens{2}));
  EXPECT_EQ(kept(.19), (Tokens{0, 2}));
  EXPECT_EQ(kept(.29), (Tokens{0, 2, 3}));
  EXPECT_EQ(kept(.39), first(4));  // of one alone, none
  EXPECT_EQ(kept(.41), first(4));
  EXPECT_EQ(ids(logits_of({.4, .2, .4}), {.xtc = 1, .xtc_threshold = .3}), (Tokens{1, 2}));
}

TEST(Xtc, LooksAtWhatFiltersBeforeItHaveLeft) {
  const std::vector<float> logits = logits_of({.3, .3, .2, .1, .1});
  EXPECT_EQ(ids(logits, {.top_k = 3, .xtc = 1, .xtc_threshold = .24}), (Tokens{2}));
  EXPECT_EQ(ids(logits, {.top_k = 3, .xtc = 1, .xtc_threshold = .4}), first(3));
}

TEST(Xtc, ActsInItsShareOfDrawsByARandomNumberOfItsOwn) {
  const std::vector<float> logits = logits_of({.6, .4});
  Sampler sampler({.temperature = 1, .xtc = .25, .seed = 3}, 2);
  Index acted = 0, best = 0;
  for (Position position = 0; position < 4000; ++position) {
    const bool cut = sampler.candidates(logits, 5, position).size() == 1;
    EXPECT_EQ(sampler.candidates(logits, 5, position).size() == 1, cut);
    acted += cut;
    const Token token = sampler.sample(logits, 5, position);
    EXPECT_TRUE(!cut || token == 1);
    best += token == 0;
  }
  EXPECT_NEAR(static_cast<double>(acted) / 4000, .25, .03);
  EXPECT_NEAR(static_cast<double>(best) / static_cast<double>(4000 - acted), .6, .03);
}

TEST(Mirostat, KeepsWhatSurprisesLessThanItsBoundAndAlwaysTheBest) {
  const std::vector<float> logits = logits_of({.125, .5, .25, .125});
  EXPECT_EQ(ids(logits, {.mirostat = 1.55}), first(4));  // bounds are twice that: 3.1 bits
  EXPECT_EQ(ids(logits, {.mirostat = 1.45}), (Tokens{1, 2}));
  EXPECT_EQ(ids(logits, {.mirostat = 0.1}), (Tokens{1}));
}

TEST(Mirostat, MovesItsBoundByTheSurpriseOfWhatWasTaken) {
  const std::vector<float> logits = logits_of({.125, .5, .25, .125});
  Sampler sampler({.temperature = 1, .mirostat = 1.55, .mirostat_rate = 1}, 4);
  ASSERT_EQ(sampler.candidates(logits).size(), 4u);  // the bound is 3.1
  sampler.took(2);                                   // 2 bits, of a mean of 1.55: 2.65
  ASSERT_EQ(sampler.candidates(logits).size(), 2u);
  sampler.took(1);  // of what is left, 0.585 bits: 3.615
  EXPECT_EQ(sampler.candidates(logits).size(), 4u);
}

TEST(Mirostat, BringsTheMeanSurpriseToItsTarget) {
  std::vector<double> zipf;
  for (int rank = 1; rank <= 2000; ++rank) zipf.push_back(1.0 / rank);
  const std::vector<float> logits = logits_of(zipf);
  for (const double target : {1.5, 3.0, 5.0}) {
    Sampler sampler({.temperature = 1, .mirostat = target, .seed = 9}, 2000);
    double sum = 0;
    for (Position position = 0; position < 3000; ++position) {
      const auto candidates = sampler.candidates(logits, 0, position);
      const std::vector<Candidate> kept(candidates.begin(), candidates.end());
      const Token token = sampler.sample(logits, 0, position);
      sum -= std::log2(std::ranges::find(kept, token, &Candidate::token)->probability);
    }
    EXPECT_NEAR(sum / 3000, target, 0.1) << target;
  }
}

TEST(Filters, LeaveTheSoftmaxWhenAllAreOff) {
  expect_probabilities(survivors({3, 2, 1}, {}), {.6652, .2447, .0900});
  expect_probabilities(survivors({3, 2, 1}, {.temperature = .5}), {.8668, .1173, .0159});
  expect_probabilities(survivors({3, 2, 0}, {}), {.7054, .2595, .0351});
}

// Logits that differ, but whose probabilities round to the same value.
TEST(Filters, GoByTheLogitWhenProbabilitiesAreEqual) {
  const std::vector<float> close = {0.0f, 1e-30f};
  for (const SamplerOptions& options :
       {SamplerOptions{.top_k = 1}, {.top_p = 0}, {.min_p = 2}, {.top_p = 0, .min_p = 2}}) {
    EXPECT_EQ(ids(close, options), (Tokens{1}));
  }
}

TEST(Filters, SurviveExtremeTemperaturesAndLogits) {
  const std::vector<float> logits = {-3e38f, 3e38f, 2.9e38f};
  EXPECT_EQ(ids(logits, {.temperature = 1e-300}), (Tokens{1}));
  EXPECT_EQ(ids(logits, {.temperature = 1e300}), first(3));
  const std::vector<Filter> last = presets::llama_cpp().order;
  EXPECT_EQ(ids(logits, {.temperature = 1e-300, .order = last}), (Tokens{1}));
  EXPECT_EQ(ids(logits, {.temperature = 1e300, .order = last}), first(3));
  std::vector<double> probabilities(60, .01);  // of which typical drops the best
  probabilities.push_back(.4);
  const SamplerOptions cold = {.temperature = .004, .typical = .295, .order = last};
  EXPECT_EQ(ids(logits_of(probabilities), cold), first(30));
}

TEST(Filters, LeaveADistributionByAscendingId) {
  const std::vector<float> logits = {.3f, 2, -1, 1.7f, 0, -kInfinity, 1.1f, 2};
  const std::vector<SamplerOptions> settings = {
      {.temperature = .7},
      {.temperature = .7, .top_k = 4},
      {.temperature = .7, .top_p = .8},
      {.temperature = .7, .min_p = .2},
      {.temperature = .7, .top_k = 6, .top_p = .95, .min_p = .1},
      {.temperature = .7, .top_k = 6, .top_p = .95, .order = presets::llama_cpp().order}};
  for (const SamplerOptions& options : settings) {
    const std::vector<Candidate> left = survivors(logits, options);
    double sum = 0;
    for (const Candidate& candidate : left) {
      EXPECT_GT(candidate.probability, 0);
      sum += candidate.probability;
    }
    EXPECT_NEAR(sum, 1.0, 1e-15);
    EXPECT_TRUE(std::ranges::is_sorted(left, std::ranges::less_equal{}, &Candidate::token));
  }
}

}  // namespace
}  // namespace decant::decoding
