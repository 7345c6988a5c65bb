// tests/kv/prefix_summary_test.cpp - a summary answers as its tree would, and is sent as changes.
#include <decant/codec/plain.hpp>
#include <decant/core/random.hpp>
#include <decant/kv/prefix_summary.hpp>
#include <decant/kv/prefix_tree.hpp>

#include "kv/tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using codec::F32;
using kv::CacheNamespace;
using kv::PrefixSummary;
using trial::tokens_from;

using Tokens = std::vector<Token>;
using PageHashes = std::vector<std::uint64_t>;

constexpr Index kPage = 16;

// A tree of a few pages, of which only lengths are tested.
class Cache {
 public:
  explicit Cache(Index pages) : pool_({1, 1, 1, 1}, pages + 8, kPage), tree_(pool_, pages) {}

  const kv::PrefixTree<F32>& tree() const { return tree_; }

  void insert(const CacheNamespace& space, const Tokens& tokens) {
    kv::Paged<F32> store = tree_.match(space, tokens);
    const Index rest = std::ssize(tokens) - store.end();
    store.reserve(rest);
    store.publish(rest);
    tree_.insert(space, tokens, store);
  }

 private:
  kv::PagePool<F32> pool_;
  kv::PrefixTree<F32> tree_;
};

TEST(PrefixSummary, SaysWhatItsTreeWouldReuse) {
  Cache cache(4);
  const Tokens prompt = tokens_from(0, 56);
  cache.insert({1, 2, 3}, prompt);
  const PrefixSummary summary = PrefixSummary::of(cache.tree());
  EXPECT_EQ(summary.page_tokens(), kPage);
  EXPECT_EQ(summary.pages(), 3);
  for (Index length : {0, 1, 15, 16, 17, 32, 33, 48, 49, 56}) {
    const Index reused = std::max<Index>(0, std::min(length / kPage * kPage, length - 1));
    EXPECT_EQ(summary.matched({1, 2, 3}, tokens_from(0, length)), reused) << length;
  }
  Tokens other = prompt;
  other[20] = 999;  // the third page is equal, what lies before it is not
  EXPECT_EQ(summary.matched({1, 2, 3}, other), 16);
  other[0] = 998;
  EXPECT_EQ(summary.matched({1, 2, 3}, other), 0);
}

TEST(PrefixSummary, TellsModelsAdaptersAndTenantsApart) {
  const Tokens prompt = tokens_from(0, 17);
  std::vector<CacheNamespace> spaces;
  for (std::uint64_t high : {std::uint64_t{0}, std::uint64_t{1} << 32}) {
    for (std::uint64_t model = 0; model < 6; ++model) {
      for (std::uint64_t adapter = 0; adapter < 6; ++adapter) {
        for (std::uint64_t tenant = 0; tenant < 6; ++tenant) {
          spaces.push_back({model, adapter, tenant + high});
        }
      }
    }
  }
  for (const CacheNamespace& space : spaces) {
    PrefixSummary summary(kPage);
    summary.insert(space, prompt);
    const auto held = [&](const CacheNamespace& other) {
      return summary.matched(other, prompt) > 0;
    };
    EXPECT_TRUE(held(space));
    EXPECT_EQ(std::ranges::count_if(spaces, held), 1);
  }
}

// Prompts with a few common beginnings and ends, in a tree with room for some of them: a summary
// that applies the changes knows how much of any prompt the tree would reuse.
TEST(PrefixSummary, FollowsATreeByChanges) {
  const auto draw = [](Index step, Index below, std::size_t which) {
    return static_cast<Index>(uniform(9, 0, step, which) * static_cast<double>(below));
  };
  const auto prompt = [&](Index step) {
    Tokens tokens = tokens_from(static_cast<Token>(100 * draw(step, 3, 0)), 40);
    const Tokens end = tokens_from(static_cast<Token>(1000 * draw(step, 5, 1)), 1 + step % 40);
    tokens.insert(tokens.end(), end.begin(), end.end());
    return tokens;
  };
  const auto space = [](Index step) {
    return CacheNamespace{0, 0, static_cast<std::uint64_t>(step) / 7 % 2};
  };
  Cache cache(9);
  PrefixSummary told(kPage), before(kPage);
  Index dropped = 0;
  for (Index step = 0; step < 200; ++step) {
    cache.insert(space(step), prompt(step));
    const PrefixSummary now = PrefixSummary::of(cache.tree());
    const PrefixSummary::Change change = now.since(before);
    dropped += std::ssize(change.dropped);
    told.apply(change);
    before = now;
    EXPECT_EQ(told, now);
    for (Index other = step; other < step + 5; ++other) {
      EXPECT_EQ(told.matched(space(other), prompt(other)),
                cache.tree().matched(space(other), prompt(other)))
          << step;
    }
  }
  EXPECT_GT(dropped, 100);
}

TEST(PrefixSummary, IsItsHashes) {
  PrefixSummary summary(kPage);
  summary.insert({}, tokens_from(0, 50));
  summary.insert({}, tokens_from(0, 20));  // nothing new
  const PageHashes hashes = summary.hashes();
  EXPECT_EQ(hashes.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(hashes));
  EXPECT_EQ(PrefixSummary(kPage, hashes), summary);
  PageHashes pages = kv::page_hashes({}, tokens_from(0, 50), kPage);
  std::ranges::sort(pages);
  EXPECT_EQ(pages, hashes);
  EXPECT_NE(PrefixSummary(2 * kPage, hashes), summary);
}

TEST(PrefixSummary, EndsWhereAPageIsMissing) {
  const PageHashes pages = kv::page_hashes({}, tokens_from(0, 64), kPage);
  PrefixSummary summary(kPage, pages);
  EXPECT_EQ(summary.matched(pages), 64);
  summary.apply({.cached = {}, .dropped = {pages[1]}});
  EXPECT_EQ(summary.matched(pages), 16);
  summary.apply({.cached = {}, .dropped = {pages[1], pages[0]}});  // the first is gone already
  EXPECT_EQ(summary.matched(pages), 0);
  EXPECT_EQ(summary.pages(), 2);
  summary.apply({.cached = pages, .dropped = {}});
  EXPECT_EQ(summary.matched(pages), 64);
}

TEST(PrefixSummary, RefusesPagesWithoutTokensAndChangesOfOtherPages) {
  EXPECT_THROW(PrefixSummary(0), std::invalid_argument);
  EXPECT_THROW(PrefixSummary(-16), std::invalid_argument);
  EXPECT_THROW(kv::page_hashes({}, tokens_from(0, 4), 0), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(PrefixSummary(16).since(PrefixSummary(32))),
               std::invalid_argument);
}

}  // namespace
