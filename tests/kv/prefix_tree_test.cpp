// tests/kv/prefix_tree_test.cpp - cached prefixes: found by tokens, whatever the hash, and evicted
// in order.
#include <decant/kv/prefix_tree.hpp>

#include "kv/stores.hpp"
#include "kv/tokens.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::F32;
using kv::CacheNamespace;
using kv::Paged;
using kv::PagePool;
using kv::PrefixTree;
using trial::holds;
using trial::kStoreGeometry;
using trial::tokens_from;

using Tokens = std::vector<Token>;

// Rows of a sequence: a token's row depends on all tokens before it, as keys and values do.
class Rows {
 public:
  std::vector<Index> of(const CacheNamespace& space, const Tokens& tokens) {
    std::vector<Index> ids;
    for (std::size_t end = 1; end <= tokens.size(); ++end) {
      const auto key =
          std::pair(space, Tokens(tokens.begin(), tokens.begin() + static_cast<long>(end)));
      ids.push_back(ids_of_.emplace(key, std::ssize(ids_of_)).first->second);
    }
    return ids;
  }

  // Computes what `store` lacks of `tokens`.
  template <class S>
  void complete(S& store, const CacheNamespace& space, const Tokens& tokens) {
    const auto ids = of(space, tokens);
    trial::append(store, std::span(ids).subspan(static_cast<std::size_t>(store.end())));
  }

 private:
  std::map<std::pair<CacheNamespace, Tokens>, Index> ids_of_;
};

struct ConstantHash {
  std::uint64_t operator()(std::uint64_t, std::span<const Token>) const noexcept { return 7; }
};

template <class Hash>
class Prefixes : public testing::Test {};
using Hashes = testing::Types<kv::TokenHash, ConstantHash>;
TYPED_TEST_SUITE(Prefixes, Hashes);

TYPED_TEST(Prefixes, AreReusedUpToTheLastToken) {
  PagePool<F32> pool(kStoreGeometry, 20, 16);
  PrefixTree<F32, F32, TypeParam> tree(pool);
  Rows rows;
  const CacheNamespace space = {1, 0, 0};
  const Tokens prompt = tokens_from(0, 40);
  {
    Paged<F32> store = tree.match(space, prompt);
    EXPECT_EQ(store.end(), 0);
    rows.complete(store, space, prompt);
    tree.insert(space, prompt, store);
  }
  EXPECT_EQ(tree.pages(), 2);  // the third is not full
  EXPECT_EQ(pool.cached_pages(), 2);
  for (const Index length : {1, 2, 16, 17, 32, 33, 40}) {
    const Tokens part = tokens_from(0, length);
    const Index reused = std::min(length / 16 * 16, length - 1);
    EXPECT_EQ(tree.matched(space, part), reused);
    Paged<F32> store = tree.match(space, part);
    ASSERT_EQ(store.end(), reused);
    rows.complete(store, space, part);
    EXPECT_TRUE(holds(store, rows.of(space, part))) << length;
  }
  EXPECT_EQ(pool.used_pages(), 0);
  Tokens other = prompt;
  other[20] = 999;
  EXPECT_EQ(tree.matched(space, other), 16);
  other[0] = 998;
  EXPECT_EQ(tree.matched(space, other), 0);
}

// Two sequences compute the same prefix at once; the first caches it, the second what follows. Then
// the first ends: its pages are unused, but precede one in use.
TYPED_TEST(Prefixes, AreEvictedBeforePagesThatAreInUse) {
  PagePool<F32> pool(kStoreGeometry, 6, 16);
  PrefixTree<F32, F32, TypeParam> tree(pool);
  Rows rows;
  const CacheNamespace space = {1, 0, 0};
  const Tokens longer = tokens_from(0, 48), shorter = tokens_from(0, 32);
  Paged<F32> other(pool);
  rows.complete(other, space, longer);
  {
    Paged<F32> store(pool);
    rows.complete(store, space, shorter);
    tree.insert(space, shorter, store);
  }
  tree.insert(space, longer, other);
  EXPECT_EQ(tree.pages(), 3);
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_EQ(pool.cached_pages(), 2);
  EXPECT_FALSE(tree.make_room(4));
  EXPECT_EQ(tree.pages(), 3);
  EXPECT_TRUE(tree.make_room(3));
  EXPECT_EQ(pool.free_pages(), 3);
  EXPECT_EQ(tree.pages(), 0);
  EXPECT_EQ(tree.statistics().evicted_pages, 3);
  EXPECT_TRUE(holds(other, rows.of(space, longer)));
}

TYPED_TEST(Prefixes, OfOtherModelsAdaptersAndTenantsAreNotShared) {
  PagePool<F32> pool(kStoreGeometry, 20, 16);
  PrefixTree<F32, F32, TypeParam> tree(pool);
  Rows rows;
  const Tokens prompt = tokens_from(0, 17);
  const CacheNamespace spaces[] = {{1, 2, 3}, {9, 2, 3}, {1, 9, 3}, {1, 2, 9}, {2, 1, 3}};
  for (const CacheNamespace& space : spaces) {
    Paged<F32> store = tree.match(space, prompt);
    EXPECT_EQ(store.end(), 0);
    rows.complete(store, space, prompt);
    tree.insert(space, prompt, store);
  }
  for (const CacheNamespace& space : spaces) {
    Paged<F32> store = tree.match(space, prompt);
    EXPECT_EQ(store.end(), 16);
    rows.complete(store, space, prompt);
    EXPECT_TRUE(holds(store, rows.of(space, prompt)));
  }
}

TYPED_TEST(Prefixes, ThatAreUsedLeastRecentlyAreEvicted) {
  PagePool<F32> pool(kStoreGeometry, 8, 16);
  PrefixTree<F32, F32, TypeParam> tree(pool, 3);
  Rows rows;
  const auto cache = [&](Token first, Index count, int priority) {
    const Tokens prompt = tokens_from(first, count);
    Paged<F32> store = tree.match({}, prompt);
    rows.complete(store, {}, prompt);
    tree.insert({}, prompt, store, priority);
  };
  const auto held = [&](Token first) { return tree.matched({}, tokens_from(first, 49)); };
  cache(0, 16, 0);
  cache(100, 16, 0);
  cache(200, 16, 1);
  EXPECT_EQ(tree.pages(), 3);
  static_cast<void>(tree.match({}, tokens_from(0, 17)));  // used again
  cache(300, 16, 0);
  EXPECT_EQ(held(0), 16);
  EXPECT_EQ(held(100), 0);
  EXPECT_EQ(held(200), 16);
  EXPECT_EQ(held(300), 16);
  cache(400, 16, 0);
  cache(500, 16, 0);
  EXPECT_EQ(held(200), 16);  // of a higher priority
  EXPECT_EQ(tree.pages(), 3);
  EXPECT_EQ(tree.statistics().evicted_pages, 3);
  cache(600, 48, 0);  // does not evict its own prefix
  EXPECT_EQ(held(600), 32);
  EXPECT_EQ(held(200), 16);
  EXPECT_EQ(pool.free_pages() + pool.cached_pages(), 8);
}

TYPED_TEST(Prefixes, InUseStay) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  PrefixTree<F32, F32, TypeParam> tree(pool);
  Rows rows;
  const Tokens prompt = tokens_from(0, 33);
  Paged<F32> store = tree.match({}, prompt);
  rows.complete(store, {}, prompt);
  tree.insert({}, prompt, store);
  EXPECT_TRUE(tree.make_room(1));
  EXPECT_FALSE(tree.make_room(2));
  EXPECT_TRUE(holds(store, rows.of({}, prompt)));
  EXPECT_EQ(tree.pages(), 2);
  store.rewind(0);
  EXPECT_TRUE(tree.make_room(3));
  EXPECT_EQ(tree.pages(), 1);  // the end of the branch went first
  EXPECT_EQ(tree.matched({}, prompt), 16);
  EXPECT_TRUE(tree.make_room(4));
  EXPECT_EQ(tree.pages(), 0);
}

TYPED_TEST(Prefixes, OutliveTheTreeInTheSequencesThatUseThem) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  Paged<F32> store(pool);
  Rows rows;
  const Tokens prompt = tokens_from(0, 33);
  {
    PrefixTree<F32, F32, TypeParam> tree(pool);
    rows.complete(store, {}, prompt);
    tree.insert({}, prompt, store);
  }
  EXPECT_TRUE(holds(store, rows.of({}, prompt)));
  store.rewind(0);
  EXPECT_EQ(pool.free_pages(), 4);
}

// One page under two names, and in two trees: it is free when the last of them drops it.
TEST(PrefixTree, SharesPagesWithOtherSpacesAndTrees) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  Rows rows;
  const Tokens prompt = tokens_from(0, 17);
  PrefixTree<F32> other(pool);
  {
    PrefixTree<F32> tree(pool);
    Paged<F32> store(pool);
    rows.complete(store, {}, prompt);
    tree.insert({.tenant = 1}, prompt, store);
    tree.insert({.tenant = 2}, prompt, store);
    other.insert({}, prompt, store);
    EXPECT_EQ(pool.cached_pages(), 0);
    store.rewind(0);
    EXPECT_EQ(pool.cached_pages(), 1);
  }
  EXPECT_EQ(pool.cached_pages(), 1);
  Paged<F32> store = other.match({}, prompt);
  const std::vector<Index> ids = rows.of({}, prompt);
  EXPECT_TRUE(holds(store, std::span(ids).first(16)));
  EXPECT_EQ(pool.free_pages() + pool.used_pages(), 4);
}

TEST(PrefixTree, DoesNotEvictThePrefixThatItExtends) {
  PagePool<F32> pool(kStoreGeometry, 6, 16);
  PrefixTree<F32> tree(pool, 1);
  Rows rows;
  {
    Paged<F32> store(pool);
    rows.complete(store, {}, tokens_from(0, 16));
    tree.insert({}, tokens_from(0, 16), store);
  }
  Paged<F32> store(pool);  // the same beginning, computed apart
  rows.complete(store, {}, tokens_from(0, 48));
  tree.insert({}, tokens_from(0, 48), store);
  EXPECT_EQ(tree.pages(), 1);
  EXPECT_EQ(tree.matched({}, tokens_from(0, 48)), 16);
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_EQ(pool.cached_pages(), 1);
}

TEST(PrefixTree, EvictsNothingIfThatCannotMakeRoom) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  PrefixTree<F32> tree(pool);
  Rows rows;
  Paged<F32> used(pool);
  rows.complete(used, {}, tokens_from(50, 3));
  {
    Paged<F32> store(pool);
    rows.complete(store, {}, tokens_from(0, 16));
    tree.insert({}, tokens_from(0, 16), store);
  }
  EXPECT_FALSE(tree.make_room(4));
  EXPECT_EQ(tree.pages(), 1);
  EXPECT_TRUE(tree.make_room(3));
}

TEST(PrefixTree, RefusesTokensThatTheStoreDoesNotHold) {
  PagePool<F32> pool(kStoreGeometry, 4, 16);
  PrefixTree<F32> tree(pool);
  Paged<F32> store(pool);
  EXPECT_THROW(tree.insert({}, tokens_from(0, 1), store), std::invalid_argument);
  EXPECT_THROW(tree.match({}, {}), std::invalid_argument);
  PagePool<F32> another(kStoreGeometry, 4, 16);
  EXPECT_THROW(tree.insert({}, {}, Paged<F32>(another)), std::invalid_argument);
  EXPECT_THROW(PrefixTree<F32>(pool, -1), std::invalid_argument);
  EXPECT_EQ(tree.pages(), 0);
}

// Prompts over two tokens, so that they share beginnings; some requests fail on the way.
RC_GTEST_PROP(PrefixTree, GivesEveryPromptItsOwnRows, ()) {
  PagePool<F32> pool(kStoreGeometry, 14, 16);
  PrefixTree<F32, F32, ConstantHash> tree(pool, *rc::gen::inRange(Index{0}, Index{12}));
  Rows rows;
  Index asked = 0;
  const auto requests = *rc::gen::resize(
      trial::kSlowBuild ? 10 : 60,
      rc::gen::container<std::vector<std::tuple<unsigned, Index, int>>>(
          rc::gen::tuple(rc::gen::inRange(0u, 16u), rc::gen::inRange(Index{1}, Index{80}),
                         rc::gen::inRange(0, 4))));
  for (const auto& [bits, length, what] : requests) {
    Tokens prompt;
    for (Index at = 0; at < length; ++at) {
      prompt.push_back(static_cast<Token>(bits >> (at / 20) & 1u));  // changes every 20 tokens
    }
    const CacheNamespace space = {.tenant = bits % 2};
    {
      Paged<F32> store = tree.match(space, prompt);
      asked += length;
      RC_ASSERT(store.end() < length);
      const Index pages = ceil_div(length, Index{16}) + 1;
      if (tree.make_room(pages)) {
        rows.complete(store, space, prompt);
        RC_ASSERT(bool(holds(store, rows.of(space, prompt))));
        if (what > 0) tree.insert(space, prompt, store, what % 2);
      }
    }
    RC_ASSERT(pool.used_pages() == 0);
    RC_ASSERT(pool.cached_pages() == tree.pages());
    RC_ASSERT(pool.free_pages() + pool.cached_pages() == pool.total_pages());
    RC_ASSERT(tree.statistics().reused_tokens + tree.statistics().computed_tokens == asked);
  }
}

}  // namespace
