// tests/decoding/sampler_test.cpp - refusals, greedy choice, the inverse CDF, and draws that depend
// on the position alone.
#include <decant/core/random.hpp>
#include <decant/decoding/sampler.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace decant::decoding {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kAlmostOne = 1.0 - 0x1p-53;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(not refused)";
}

std::vector<float> wavy_logits(Index vocabulary) {
  std::vector<float> logits;
  for (Index token = 0; token < vocabulary; ++token) {
    logits.push_back(2.0f * static_cast<float>(std::sin(0.7 * static_cast<double>(token))));
  }
  return logits;
}

TEST(SamplerOptions, RefuseInvalidOptions) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<SamplerOptions> refused = {
      {.temperature = -0.1}, {.temperature = nan}, {.temperature = infinity},
      {.top_k = -1},         {.top_p = -0.1},      {.top_p = 1.1},
      {.top_p = nan},        {.min_p = -0.1},      {.min_p = nan},
      {.min_p = infinity}};
  for (const SamplerOptions& options : refused) {
    EXPECT_THROW(Sampler(options, 4), std::invalid_argument);
  }
  EXPECT_THROW(Sampler({}, 0), std::invalid_argument);
  EXPECT_NO_THROW(Sampler({.temperature = 1, .top_k = 999, .top_p = 0, .min_p = 1.05}, 4));
}

TEST(SamplerOptions, RefusalNamesTheOptionAndItsValue) {
  const std::string why = refusal([] { Sampler({.top_p = 1.5}, 4); });
  EXPECT_NE(why.find("top_p is 1.5"), std::string::npos) << why;
}

TEST(Sampler, FindsTheBestTokenAndNaNAnywhereInALongRow) {
  for (std::size_t at : {0u, 15u, 4095u, 4096u, 4097u, 8191u, 8192u, 9998u}) {
    std::vector<float> logits(9999, -1.0f);
    logits[at] = logits.back() = 2.0f;
    EXPECT_EQ(argmax(logits), static_cast<Token>(at));
    logits[at] = kNan;
    const std::string why = refusal([&] { argmax(logits); });
    EXPECT_NE(why.find("token " + std::to_string(at) + " is"), std::string::npos) << why;
  }
}

TEST(Argmax, TakesTheLowerIdOfEqualLogits) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>{0.0f, -0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -3e38f, -kInf}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-2, -1, 0, .8f, 0, .1f, .3f, .4f, .5f, .6f, .7f, -3}), 3);
}

TEST(Argmax, RefusesNanAtAnyPosition) {
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<float> logits = {3, 2, 1};
    logits[at] = kNan;
    const std::string why = refusal([&] { argmax(logits); });
    EXPECT_NE(why.find("token " + std::to_string(at)), std::string::npos) << why;
    EXPECT_NE(why.find("nan"), std::string::npos) << why;
  }
}

TEST(Argmax, RefusesInfinityAndARowWithoutCandidates) {
  EXPECT_NE(refusal([] { argmax(std::vector<float>{0, kInf}); }).find("is inf"), std::string::npos);
  const std::vector<float> banned(4, -kInf);
  EXPECT_NE(refusal([&] { argmax(banned); }).find("no candidate is left"), std::string::npos);
}

TEST(Sampler, RefusesBadRowsUnderEverySetting) {
  const std::vector<SamplerOptions> settings = {{},
                                                {.temperature = 1},
                                                {.temperature = 1, .top_k = 2},
                                                {.temperature = 1, .top_p = .5},
                                                {.temperature = 1, .min_p = .5}};
  for (const SamplerOptions& options : settings) {
    Sampler sampler(options, 4);
    const std::vector<std::vector<float>> rows = {
        {1, 2, kNan, 3}, {1, 2, kInf, 3}, std::vector<float>(4, -kInf), {1, 2, 3}};
    for (const auto& row : rows) {
      EXPECT_THROW(sampler.sample(row, 0, 0), std::invalid_argument);
      EXPECT_THROW(sampler.candidates(row), std::invalid_argument);
    }
    EXPECT_NO_THROW(sampler.sample(std::vector<float>{1, 2, 3, 4}, 0, 0));  // still usable
  }
}

TEST(Sampler, TemperatureZeroTakesTheBestUnderAnyFilters) {
  const std::vector<float> logits = {1, 5, 5, 2};
  Sampler sampler({.temperature = 0, .top_k = 3, .top_p = .9, .min_p = .1}, 4);
  for (Position position = 0; position < 20; ++position) {
    EXPECT_EQ(sampler.sample(logits, 0, position), 1);
  }
  ASSERT_EQ(sampler.candidates(logits).size(), 1u);
  EXPECT_EQ(sampler.candidates(logits)[0], (Candidate{1, 1.0}));
}

TEST(Draw, InvertsTheCumulativeDistributionInTheGivenOrder) {
  const std::vector<Candidate> candidates = {{7, .25}, {3, .5}, {9, .25}};
  EXPECT_EQ(draw(candidates, 0.0), 7);
  EXPECT_EQ(draw(candidates, 0.2499), 7);
  EXPECT_EQ(draw(candidates, 0.25), 3);
  EXPECT_EQ(draw(candidates, 0.7499), 3);
  EXPECT_EQ(draw(candidates, 0.75), 9);
  EXPECT_EQ(draw(candidates, kAlmostOne), 9);
}

TEST(Draw, TakesProbabilitiesThatAreNotNormalised) {
  const std::vector<Candidate> candidates = {{0, 2.0}, {1, 2.0}};
  EXPECT_EQ(draw(candidates, 0.49), 0);
  EXPECT_EQ(draw(candidates, 0.51), 1);
}

TEST(Draw, NeverTakesAZeroProbability) {
  const std::vector<Candidate> candidates = {{0, 0.0}, {1, .5}, {2, 0.0}, {3, .5}, {4, 0.0}};
  EXPECT_EQ(draw(candidates, 0.0), 1);
  EXPECT_EQ(draw(candidates, 0.5), 3);
  EXPECT_EQ(draw(candidates, kAlmostOne), 3);
}

TEST(Draw, StaysInsideWhenSumsAreRounded) {
  const std::vector<Candidate> candidates(10, {5, .1});  // adds up to less than 1
  EXPECT_EQ(draw(candidates, kAlmostOne), 5);
}

TEST(Draw, NeverTakesAZeroProbabilityWhenTheProductRoundsUp) {
  const double smallest = std::numeric_limits<double>::denorm_min();
  const std::vector<Candidate> candidates = {{0, 0.0}, {1, smallest}, {2, 0.0}};
  EXPECT_EQ(draw(candidates, 0.9), 1);
}

TEST(Draw, RefusesInvalidDistributions) {
  const std::vector<Candidate> candidates = {{0, .5}, {1, .5}};
  EXPECT_THROW(draw(candidates, 1.0), std::invalid_argument);
  EXPECT_THROW(draw(candidates, -0.1), std::invalid_argument);
  EXPECT_THROW(draw(candidates, std::nan("")), std::invalid_argument);
  EXPECT_THROW(draw({}, 0.5), std::invalid_argument);
  const std::vector<Candidate> nothing = {{0, 0.0}};
  EXPECT_THROW(draw(nothing, 0.5), std::invalid_argument);
}

TEST(Sampler, NeverDrawsATokenOfProbabilityZero) {
  const std::vector<float> logits = {-kInf, 0, -2000, 0, -kInf};
  Sampler sampler({.temperature = 1}, 5);
  EXPECT_EQ(sampler.draw(logits, 0.0), 1);
  EXPECT_EQ(sampler.draw(logits, kAlmostOne), 3);
  EXPECT_EQ(sampler.candidates(logits).size(), 2u);
}

TEST(Sampler, DrawsByAscendingId) {
  const std::vector<float> logits = {0, 3, 1, 2};
  Sampler sampler({.temperature = 1, .top_k = 3}, 4);
  EXPECT_EQ(sampler.draw(logits, 0.0), 1);
  EXPECT_EQ(sampler.draw(logits, 0.7), 2);  // 1 ends at .665, 2 at .755
  EXPECT_EQ(sampler.draw(logits, kAlmostOne), 3);
}

TEST(Sampler, SampleIsTheDrawOfItsPosition) {
  const std::vector<float> logits = wavy_logits(50);
  Sampler sampler({.temperature = .8, .top_p = .9, .seed = 42}, 50);
  for (Position position = 0; position < 50; ++position) {
    EXPECT_EQ(sampler.sample(logits, 3, position), sampler.draw(logits, uniform(42, 3, position)));
  }
}

// Tokens that an independent program computed by the same rules.
TEST(Sampler, DrawsTheKnownTokens) {
  const std::vector<float> logits = wavy_logits(50);
  const auto tokens = [&](const SamplerOptions& options, std::uint64_t sequence) {
    Sampler sampler(options, 50);
    std::vector<Token> drawn;
    for (Position at = 0; at < 12; ++at) drawn.push_back(sampler.sample(logits, sequence, at));
    return drawn;
  };
  const SamplerOptions options{.temperature = .8, .top_k = 20, .top_p = .95, .seed = 42};
  EXPECT_EQ(tokens(options, 0),
            (std::vector<Token>{21, 12, 30, 37, 46, 12, 38, 20, 3, 20, 30, 20}));
  EXPECT_EQ(tokens(options, 1), (std::vector<Token>{3, 48, 3, 37, 29, 48, 21, 12, 47, 20, 47, 10}));
  EXPECT_EQ(tokens({.temperature = 1.5, .seed = 7}, 0),
            (std::vector<Token>{38, 39, 0, 11, 49, 17, 21, 22, 47, 1, 49, 46}));
}

// The same sequence alone, among neighbours with the same seed and with other ones, and after a
// rewind to an earlier position.
TEST(Sampler, ATokenDoesNotDependOnItsNeighbours) {
  const std::vector<float> logits = wavy_logits(50);
  const SamplerOptions options{.temperature = .8, .seed = 42};
  Sampler alone(options, 50);
  std::vector<Token> expected;
  for (Position at = 0; at < 16; ++at) expected.push_back(alone.sample(logits, 3, at));

  Sampler shared(options, 50);
  Sampler neighbour({.temperature = 1.3, .top_k = 5, .seed = 1}, 50);
  for (Position at = 0; at < 16; ++at) {
    for (std::uint64_t sequence : {0u, 1u, 2u, 3u, 4u}) {
      neighbour.sample(logits, sequence, at);
      const Token token = shared.sample(logits, sequence, at);
      if (sequence != 3) continue;
      EXPECT_EQ(token, expected[static_cast<std::size_t>(at)]);
    }
  }
  for (Position at = 5; at < 16; ++at) {
    EXPECT_EQ(shared.sample(logits, 3, at), expected[static_cast<std::size_t>(at)]);
  }
}

TEST(Sampler, DrawsOtherTokensForAnotherSeedOrSequence) {
  const std::vector<float> flat(1000, 0.0f);
  const auto tokens = [&](std::uint64_t seed, std::uint64_t sequence) {
    Sampler sampler({.temperature = 1, .seed = seed}, 1000);
    std::vector<Token> drawn;
    for (Position at = 0; at < 8; ++at) drawn.push_back(sampler.sample(flat, sequence, at));
    return drawn;
  };
  EXPECT_NE(tokens(1, 0), tokens(2, 0));
  EXPECT_NE(tokens(1, 0), tokens(1, 1));
  EXPECT_EQ(tokens(1, 1), tokens(1, 1));
}

// Chi-square of 40,000 draws against the candidates; the sample is fixed.
TEST(Sampler, DrawsFollowTheDistribution) {
  constexpr Index kDraws = 40000;
  const std::vector<float> logits = wavy_logits(24);
  Sampler sampler({.temperature = 1.2, .top_p = .97, .seed = 11}, 24);
  std::vector<double> counts(24, 0.0);
  for (Position at = 0; at < kDraws; ++at) {
    counts[static_cast<std::size_t>(sampler.sample(logits, 0, at))] += 1;
  }
  double chi_square = 0;
  double seen = 0;
  const auto candidates = sampler.candidates(logits);
  for (const Candidate& candidate : candidates) {
    const double expected = candidate.probability * kDraws;
    const double difference = counts[static_cast<std::size_t>(candidate.token)] - expected;
    chi_square += difference * difference / expected;
    seen += counts[static_cast<std::size_t>(candidate.token)];
  }
  EXPECT_EQ(seen, kDraws);  // nothing outside the candidates
  const double freedom = static_cast<double>(candidates.size()) - 1;
  EXPECT_GT(candidates.size(), 10u);
  EXPECT_LT(candidates.size(), 24u);
  EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom));
}

}  // namespace
}  // namespace decant::decoding
