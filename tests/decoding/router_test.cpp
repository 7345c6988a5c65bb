// tests/decoding/router_test.cpp - prompts go to the replica that is done with them first; ties are
// decided the same way each time.
#include <decant/core/random.hpp>
#include <decant/decoding/router.hpp>

#include "kv/tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;
using decoding::Replica;
using decoding::Route;
using decoding::route;
using kv::CacheNamespace;
using kv::PrefixSummary;
using trial::tokens_from;

using Tokens = std::vector<Token>;

constexpr Index kPage = 16;
constexpr Index kLargest = std::numeric_limits<Index>::max();

// A replica that has cached the first tokens of tokens_from(0, ...).
Replica caching(Index tokens, Index waiting = 0, Index running = 0) {
  Replica replica = {
      .prefixes = PrefixSummary(kPage), .waiting_tokens = waiting, .running_tokens = running};
  replica.prefixes.insert({}, tokens_from(0, tokens));
  return replica;
}

TEST(Route, GoesWhereTheMostIsCached) {
  const std::vector<Replica> replicas = {caching(32), caching(64), caching(0), caching(48)};
  EXPECT_EQ(route({}, tokens_from(0, 100), replicas), (Route{1, 64, 36}));
  EXPECT_EQ(route({}, tokens_from(0, 64), replicas), (Route{1, 63, 1}));  // the last is computed
  EXPECT_EQ(route({}, tokens_from(0, 60), replicas), (Route{1, 48, 12}));
  EXPECT_EQ(route({}, tokens_from(7, 60), replicas), (Route{0, 0, 60}));
}

TEST(Route, WeighsCachedTokensAgainstWork) {
  const Tokens prompt = tokens_from(0, 100);
  for (Index ahead : {47, 48, 49}) {
    for (const Index waiting : {Index{0}, ahead / 2, ahead}) {
      const std::vector<Replica> replicas = {caching(0, 5, 6),
                                             caching(48, 5 + waiting, 6 + ahead - waiting)};
      const Index chosen = route({}, prompt, replicas).replica;
      EXPECT_EQ(chosen, ahead < 48 ? 1 : 0) << ahead << " tokens ahead, " << waiting << " waiting";
    }
  }
}

TEST(Route, OfEqualCostsTakesTheReplicaThatHasComputedLessThenTheFirst) {
  std::vector<Replica> replicas = {caching(16, 30), caching(32, 46), caching(0, 14),
                                   caching(0, 15)};
  const Tokens prompt = tokens_from(0, 40);
  EXPECT_EQ(route({}, prompt, replicas), (Route{0, 16, 24}));
  replicas[0].computed_tokens = 9;
  EXPECT_EQ(route({}, prompt, replicas), (Route{1, 32, 8}));
  replicas[1].computed_tokens = 9;
  replicas[2].computed_tokens = 8;
  EXPECT_EQ(route({}, prompt, replicas), (Route{2, 0, 40}));
  replicas[2].waiting_tokens = 100;
  replicas[3].computed_tokens = 1'000'000;
  EXPECT_EQ(route({}, prompt, replicas), (Route{0, 16, 24}));
  replicas[3].waiting_tokens = 13;  // what was computed before does not count beside a cost
  EXPECT_EQ(route({}, prompt, replicas), (Route{3, 0, 40}));
}

TEST(Route, PassesOverReplicasWithTooMuchWork) {
  const Tokens prompt = tokens_from(0, 1000);
  std::vector<Replica> replicas = {caching(0, 50), caching(960, 150, 100)};
  EXPECT_EQ(route({}, prompt, replicas).replica, 1);
  EXPECT_EQ(route({}, prompt, replicas, {.max_imbalance = 200}).replica, 1);
  EXPECT_EQ(route({}, prompt, replicas, {.max_imbalance = 199}).replica, 0);
  replicas[0].waiting_tokens = 250;
  EXPECT_EQ(route({}, prompt, replicas, {.max_imbalance = 0}).replica, 1);
  replicas[0].waiting_tokens = 249;
  EXPECT_EQ(route({}, prompt, replicas, {.max_imbalance = 0}).replica, 0);
}

TEST(Route, MatchesWithinOneNamespace) {
  std::vector<Replica> replicas(3, Replica{.prefixes = PrefixSummary(kPage)});
  const Tokens prompt = tokens_from(0, 40);
  const CacheNamespace tenants[] = {{1, 0, 5}, {1, 0, 6}, {1, 2, 5}};
  for (std::size_t i = 0; i < 3; ++i) replicas[i].prefixes.insert(tenants[i], prompt);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(route(tenants[i], prompt, replicas), (Route{static_cast<Index>(i), 32, 8}));
  }
  EXPECT_EQ(route({2, 0, 5}, prompt, replicas), (Route{0, 0, 40}));
}

TEST(Route, TakesReplicasWithPagesOfOtherSizes) {
  std::vector<Replica> replicas;
  for (Index page : {64, 16, 32, 16, 64}) {
    replicas.push_back({.prefixes = PrefixSummary(page)});
    replicas.back().prefixes.insert({}, tokens_from(0, 63));
  }
  EXPECT_EQ(route({}, tokens_from(0, 80), replicas), (Route{1, 48, 32}));
  replicas[1].waiting_tokens = replicas[3].waiting_tokens = 17;
  EXPECT_EQ(route({}, tokens_from(0, 80), replicas), (Route{2, 32, 48}));
}

// All prompts share a prefix and come at once. They spread over all replicas, and none is ever
// ahead of another by more than one prompt.
TEST(Route, SpreadsAPrefixThatAllPromptsShare) {
  std::vector<Replica> replicas(4, Replica{.prefixes = PrefixSummary(kPage)});
  Tokens prompt = tokens_from(0, 1000);
  Index computed = 0;
  for (Token user = 0; user < 400; ++user) {
    prompt.resize(960);
    for (Token i = 0; i < 40; ++i) prompt.push_back(10'000 + user * 64 + i);
    const Route to = route({}, prompt, replicas);
    Replica& replica = replicas[static_cast<std::size_t>(to.replica)];
    replica.prefixes.insert({}, prompt);
    replica.waiting_tokens += to.new_tokens;
    computed += to.new_tokens;
    const auto [low, high] = std::ranges::minmax(replicas, {}, &Replica::waiting_tokens);
    ASSERT_LE(high.waiting_tokens - low.waiting_tokens, 1000);
  }
  EXPECT_EQ(computed, 4 * 960 + 400 * 40);
}

// The rule, written plainly: all costs, then the first of the least.
Index plain_choice(const CacheNamespace& space, const Tokens& prompt,
                   const std::vector<Replica>& replicas, Index max_imbalance) {
  const auto work = [](const Replica& r) { return r.waiting_tokens + r.running_tokens; };
  Index least = kLargest;
  for (const Replica& replica : replicas) least = std::min(least, work(replica));
  std::vector<std::vector<Index>> bids;
  for (Index at = 0; at < std::ssize(replicas); ++at) {
    const Replica& replica = replicas[static_cast<std::size_t>(at)];
    if (work(replica) > least + max_imbalance) continue;
    const Index missing = std::ssize(prompt) - replica.prefixes.matched(space, prompt);
    bids.push_back({work(replica) + missing, replica.computed_tokens, at});
  }
  return std::ranges::min(bids).back();
}

TEST(Route, FollowsThePlainRuleAndStaysWithinItsBound) {
  Index draws = 0;
  const auto draw = [&draws](Index below) {
    return static_cast<Index>(uniform(3, 1, draws++) * static_cast<double>(below));
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Replica> replicas;
    for (Index at = 1 + draw(6); at > 0; --at) {
      replicas.push_back(caching(draw(10) * kPage, draw(4) * 16, draw(4) * 8));
      replicas.back().computed_tokens = draw(3);
    }
    const Tokens prompt = tokens_from(0, 1 + draw(160));
    const Index most = draw(100);
    const Route to = route({}, prompt, replicas, {.max_imbalance = most});
    ASSERT_EQ(to.replica, plain_choice({}, prompt, replicas, most));
    ASSERT_EQ(to.matched_tokens + to.new_tokens, std::ssize(prompt));
    const Replica& chosen = replicas[static_cast<std::size_t>(to.replica)];
    for (const Replica& other : replicas) {
      const Index ahead = chosen.waiting_tokens + chosen.running_tokens - other.waiting_tokens -
                          other.running_tokens;
      ASSERT_LE(ahead, std::min(most, to.matched_tokens));
    }
  }
}

// Expects a refusal whose sentence names the value.
void refused(const std::string& what, const Tokens& prompt, const std::vector<Replica>& replicas,
             Index max_imbalance = 100) {
  try {
    static_cast<void>(route({}, prompt, replicas, {.max_imbalance = max_imbalance}));
    ADD_FAILURE() << "not refused: " << what;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(Route, RefusesInvalidArguments) {
  const Tokens prompt = tokens_from(0, 20);
  refused("there are no replicas", prompt, {});
  refused("the prompt is empty", {}, {caching(0)});
  refused("max_imbalance is -1", prompt, {caching(0)}, -1);
  refused("waiting_tokens of replica 1 is -5", prompt, {caching(0), caching(0, -5, 9)});
  refused("running_tokens of replica 0 is -7", prompt, {caching(0, 9, -7)});
  Replica replica = caching(0);
  replica.computed_tokens = -3;
  refused("computed_tokens of replica 2 is -3", prompt, {caching(0), caching(0), replica});
  refused("does not fit", prompt, {caching(0, kLargest, 1)});
  refused("does not fit", prompt, {caching(0, kLargest - 19)});
  EXPECT_EQ(route({}, prompt, std::vector{caching(0, kLargest - 20)}).new_tokens, 20);
}

}  // namespace
