// tests/model/config_test.cpp - what a configuration answers, and which ones are refused.
#include <decant/model/config.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

namespace {

using namespace decant;

model::Config small() {
  model::Config config;
  config.vocabulary = 100;
  config.layers = 3;
  config.hidden_size = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.key_dim = 32;
  config.value_dim = 24;
  config.intermediate_size = 48;
  config.max_positions = 128;
  return config;
}

// The sentence that refuses `small()` after `change`, or nothing.
std::string refusal(const std::function<void(model::Config&)>& change) {
  model::Config config = small();
  change(config);
  try {
    model::check(config);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const char* what, const std::function<void(model::Config&)>& change) {
  const std::string text = refusal(change);
  EXPECT_NE(text.find(what), std::string::npos) << "'" << text << "' should name " << what;
}

TEST(Config, AcceptsAModel) {
  EXPECT_EQ(refusal([](model::Config&) {}), "");
}

TEST(Config, ListsEachMemberOnceUnderANameOfItsOwn) {
  const model::Config config = small();
  std::set<const void*> members;
  std::set<std::string_view> names;
  model::for_each_field(config, [&](const auto& field) {
    members.insert(&field.value);
    names.insert(field.name);
  });
  constexpr std::size_t kMembers = std::tuple_size_v<decltype(model::fields(config))>;
  EXPECT_EQ(members.size(), kMembers);
  EXPECT_EQ(names.size(), kMembers);
}

TEST(Config, HeadSizeIsNotHiddenSizeOverHeads) {
  const model::Config config = small();
  EXPECT_NE(config.heads * config.key_dim, config.hidden_size);
  EXPECT_FLOAT_EQ(config.effective_score_scale(), 1.0f / std::sqrt(32.0f));
  EXPECT_EQ(attention::frequencies(*config.rope, config.key_dim).size(), 16u);
  EXPECT_EQ(config.geometry(), (kv::Geometry{3, 2, 32, 24}));
}

TEST(Config, AGivenScoreScaleWins) {
  model::Config config = small();
  config.score_scale = 0.0625f;
  EXPECT_EQ(config.effective_score_scale(), 0.0625f);
}

TEST(Config, WindowsAreUnlimitedUnlessGiven) {
  model::Config config = small();
  EXPECT_EQ(config.window(2), 0);
  config.windows = {4, 0, 16};
  EXPECT_EQ(config.window(0), 4);
  EXPECT_EQ(config.window(1), 0);
  EXPECT_EQ(config.window(2), 16);
}

TEST(Config, RefusesEmptyAndNegativeExtentsByName) {
  for (Index bad : {Index{0}, Index{-1}, (Index{1} << 31) + 1}) {
    expect_refused("vocabulary", [&](model::Config& c) { c.vocabulary = bad; });
    expect_refused("layers", [&](model::Config& c) { c.layers = bad; });
    expect_refused("hidden_size", [&](model::Config& c) { c.hidden_size = bad; });
    expect_refused("heads", [&](model::Config& c) { c.heads = bad; });
    expect_refused("kv_heads", [&](model::Config& c) { c.kv_heads = bad; });
    expect_refused("key_dim", [&](model::Config& c) { c.key_dim = bad; });
    expect_refused("value_dim", [&](model::Config& c) { c.value_dim = bad; });
    expect_refused("intermediate_size", [&](model::Config& c) { c.intermediate_size = bad; });
    expect_refused("max_positions", [&](model::Config& c) { c.max_positions = bad; });
  }
}

TEST(Config, EveryFieldIsPrintedUnderItsName) {
  EXPECT_EQ(model::to_string(small()),
            "vocabulary 100, layers 3, hidden_size 64, heads 4, kv_heads 2, key_dim 32, "
            "value_dim 24, intermediate_size 48, max_positions 128, norm 0, activation 0, "
            "gated true, norm_epsilon 1e-05, embedding_scale 1, score_scale 0, windows [], "
            "sink_tokens 0, rope {rotary_dim 0, theta 10000, pairing 0, scaling 0}");
}

TEST(Config, EveryFieldIsListed) {
  const model::Config config = small();
  const char* end = reinterpret_cast<const char*>(&config);
  model::for_each_field(config, [&](const auto& field) {
    const auto* at = reinterpret_cast<const char*>(&field.value);
    EXPECT_GE(at, end) << field.name;
    EXPECT_LT(at - end, 8) << field.name << " stands behind a member that is not listed";
    end = at + sizeof field.value;
  });
  EXPECT_LT(reinterpret_cast<const char*>(&config + 1) - end, 8) << "a last member is not listed";
}

TEST(Config, RefusesHeadsThatKvHeadsDoNotDivide) {
  expect_refused("5 heads", [](model::Config& c) { c.heads = 5; });
  expect_refused("8 kv_heads", [](model::Config& c) { c.kv_heads = 8; });
}

TEST(Config, RefusesAnOddHeadOnlyIfItIsRotated) {
  expect_refused("rotary_dim 15", [](model::Config& c) { c.key_dim = 15; });
  EXPECT_EQ(refusal([](model::Config& c) {
              c.key_dim = 15;
              c.rope.reset();
            }),
            "");
}

TEST(Config, RefusesValuesThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused("norm_epsilon is nan, not finite",
                 [&](model::Config& c) { c.norm_epsilon = nan; });
  expect_refused("norm_epsilon", [&](model::Config& c) { c.norm_epsilon = -1e-5f; });
  expect_refused("embedding_scale", [&](model::Config& c) { c.embedding_scale = nan; });
  expect_refused("score_scale", [&](model::Config& c) { c.score_scale = nan; });
}

TEST(Config, RefusesWindowsThatDoNotFitTheLayers) {
  expect_refused("2 windows for 3 layers", [](model::Config& c) { c.windows = {4, 4}; });
  expect_refused("window of -1", [](model::Config& c) { c.windows = {4, -1, 0}; });
}

TEST(Config, RefusesProductsThatDoNotFit) {
  const Index huge = Index{1} << 31;
  expect_refused("63 bits", [&](model::Config& c) { c.vocabulary = c.hidden_size = huge; });
  expect_refused("63 bits", [&](model::Config& c) { c.heads = c.kv_heads = c.key_dim = huge; });
  expect_refused("63 bits", [&](model::Config& c) { c.intermediate_size = c.hidden_size = huge; });
  expect_refused("63 bits", [&](model::Config& c) {
    c.layers = huge;
    c.heads = c.kv_heads = huge;
  });
}

TEST(Config, LargeCachesAreCountedIn64Bits) {
  EXPECT_EQ((kv::Geometry{1, 1, 519840, 519840}.payload_bytes(2066, 1)), 2'147'978'880);
  EXPECT_EQ((kv::Geometry{1, 1, 8192, 8192}.payload_bytes(1048576, 1)), 17'179'869'184);
  EXPECT_EQ((kv::Geometry{1, 32, 1024, 1024}.payload_bytes(64000, 1)), 4'194'304'000);
  EXPECT_EQ((kv::Geometry{1, 64, 64, 64}.payload_bytes(Index{1} << 20, 1)), 8'589'934'592);
  const kv::Geometry absurd{Index{1} << 31, Index{1} << 31, 128, 128};
  EXPECT_THROW(static_cast<void>(absurd.payload_bytes(1, 4)), std::invalid_argument);
}

}  // namespace
