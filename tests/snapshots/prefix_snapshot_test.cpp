// tests/snapshots/prefix_snapshot_test.cpp - a tree of prefixes in a file, and back in trees whose
// pages are as large or not.
#include <decant/snapshots/prefix_snapshot.hpp>

#include "files/written_files.hpp"
#include "fuzz/snapshot_target.hpp"
#include "kv/stores.hpp"

#include <decant/codec/scaled.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace decant;
using codec::BF16;
using codec::Int8;
using trial::kStoreGeometry;
using Pool = kv::PagePool<Int8, BF16>;
using Tree = kv::PrefixTree<Int8, BF16>;
using Sequence = kv::Paged<Int8, BF16>;

// Three prompts, of which two share 40 tokens; and one of another tenant.
struct Prompt {
  kv::CacheNamespace space;
  std::vector<Token> tokens;
};
std::vector<Prompt> prompts() {
  std::vector<Prompt> all = {{{}, {}}, {{}, {}}, {{}, {}}, {{.tenant = 2}, {}}};
  for (Token at = 0; at < 100; ++at) {
    all[0].tokens.push_back(at);
    all[1].tokens.push_back(at < 40 ? at : 1000 + at);
    all[2].tokens.push_back(2000 + at);
    all[3].tokens.push_back(at);
  }
  all[1].tokens.resize(90);
  return all;
}

// Row `at` of a prompt is known by its token and its tenant; all share a row where they share all
// tokens up to it.
std::vector<Index> ids_of(const Prompt& prompt) {
  std::vector<Index> ids;
  for (Token token : prompt.tokens) {
    ids.push_back(token + 5000 * static_cast<Index>(prompt.space.tenant));
  }
  return ids;
}

class Prefixes : public testing::Test {
 protected:
  Prefixes() {
    for (const Prompt& prompt : prompts()) {
      Sequence store = tree_.share(prompt.space, prompt.tokens);
      const std::vector<Index> ids = ids_of(prompt);
      trial::append(store, std::span(ids).subspan(static_cast<std::size_t>(store.end())));
      tree_.insert(prompt.space, prompt.tokens, store, static_cast<int>(prompt.space.tenant));
    }
    snapshots::save_prefixes(path(), tree_, "m");
  }
  std::filesystem::path path() const { return folder_.path() / "prefixes"; }

  trial::Folder folder_;
  Pool pool_{kStoreGeometry, 40, 16};
  Tree tree_{pool_};
};

TEST_F(Prefixes, ComeBackToTreesWithPagesOfAnySize) {
  EXPECT_EQ(tree_.pages(), 6 + 3 + 6 + 6);
  const snapshots::PrefixSnapshot snapshot = snapshots::PrefixSnapshot::open(path());
  EXPECT_EQ(snapshot.pages(), 21);
  for (Index page : {16, 32, 48}) {
    Pool pool(kStoreGeometry, 70, page);
    Tree tree(pool);
    snapshot.restore(tree, "m");
    for (const Prompt& prompt : prompts()) {
      const Index cached = std::ssize(prompt.tokens) / 16 * 16 / page * page;
      Sequence found = tree.match(prompt.space, prompt.tokens);
      EXPECT_EQ(found.end(), cached) << "pages of " << page;
      const std::vector<Index> ids = ids_of(prompt);
      EXPECT_TRUE(trial::holds(found, std::span(ids).first(static_cast<std::size_t>(found.end()))));
    }
    EXPECT_EQ(pool.used_pages(), 0);
    EXPECT_EQ(pool.cached_pages(), tree.pages());
    const Index pages = tree.pages();
    if (page == 16) {
      EXPECT_EQ(pages, 21);
    }
    snapshot.restore(tree, "m");  // what is there already stays
    EXPECT_EQ(tree.pages(), pages);
    EXPECT_EQ(pool.cached_pages(), pages);
  }
}

// Rows of several scales, in formats that differ or not.
template <codec::Codec K, codec::Codec V>
void expect_wide_rows_back() {
  const trial::Folder folder;
  const Prompt prompt = prompts()[0];
  const std::vector<Index> ids = ids_of(prompt);
  kv::PagePool<K, V> pool(trial::kWideGeometry, 8, 16);
  kv::PrefixTree<K, V> tree(pool);
  kv::Paged<K, V> store(pool);
  trial::append(store, ids);
  tree.insert(prompt.space, prompt.tokens, store);
  snapshots::save_prefixes(folder.path() / "wide", tree, "m");
  for (Index page : {16, 48}) {
    kv::PagePool<K, V> other(trial::kWideGeometry, 12, page);
    kv::PrefixTree<K, V> restored(other);
    snapshots::PrefixSnapshot::open(folder.path() / "wide").restore(restored, "m");
    const kv::Paged<K, V> found = restored.match(prompt.space, prompt.tokens);
    EXPECT_EQ(found.end(), 96);
    EXPECT_TRUE(trial::holds(found, std::span(ids).first(96)));
  }
}

TEST(PrefixSnapshot, BringsBackRowsOfSeveralScales) {
  expect_wide_rows_back<codec::Int4, codec::Int4>();
  expect_wide_rows_back<Int8, codec::Int4>();
  expect_wide_rows_back<codec::Int4, BF16>();
}

// A tree with a lower limit drops the pages of no priority, the least recently used first; and
// so does the one restored.
TEST_F(Prefixes, RetainTheirPriorityAndWhenTheyWereUsed) {
  const std::vector<Prompt> all = prompts();
  const auto left = [&](const Tree& tree) {
    std::vector<Index> lengths;
    for (const Prompt& prompt : all) lengths.push_back(tree.matched(prompt.space, prompt.tokens));
    return lengths;
  };
  tree_.match(all[0].space, all[0].tokens);  // used last now
  snapshots::save_prefixes(path(), tree_, "m");
  Pool pool(kStoreGeometry, 40, 16);
  Tree tree(pool);
  snapshots::PrefixSnapshot::open(path()).restore(tree, "m");
  ASSERT_EQ(left(tree), left(tree_));
  for (Index room = 19; room <= 40; ++room) {
    ASSERT_EQ(pool.free_pages(), pool_.free_pages());
    tree.make_room(room);
    tree_.make_room(room);
    ASSERT_EQ(left(tree), left(tree_)) << room << " pages free";
  }
  EXPECT_EQ(tree.pages(), 0);
}

TEST_F(Prefixes, AreRefusedByTreesTheyDoNotFit) {
  const snapshots::PrefixSnapshot snapshot = snapshots::PrefixSnapshot::open(path());
  Pool small(kStoreGeometry, 20, 16);
  Tree tree(small);
  EXPECT_THROW(snapshot.restore(tree, "m"), CacheFull);
  EXPECT_THROW(snapshot.restore(tree, "another"), std::invalid_argument);
  EXPECT_EQ(small.free_pages(), 20);
  kv::PagePool<Int8> other(kStoreGeometry, 40, 16);
  kv::PrefixTree<Int8> values(other);
  EXPECT_THROW(snapshot.restore(values, "m"), std::invalid_argument);
  EXPECT_THROW(snapshots::Snapshot::open(path()), FormatError);
}

TEST_F(Prefixes, OfAnEmptyTreeAreNone) {
  Pool pool(kStoreGeometry, 4, 16);
  Tree empty(pool);
  snapshots::save_prefixes(path(), empty, "m");
  const snapshots::PrefixSnapshot snapshot = snapshots::PrefixSnapshot::open(path());
  EXPECT_EQ(snapshot.pages(), 0);
  snapshot.restore(empty, "m");
  EXPECT_EQ(empty.pages(), 0);
}

TEST_F(Prefixes, WithAnyOneByteChangedAreRefused) {
  const std::string bytes = trial::read_file(path());
  for (std::size_t at = 0; at < bytes.size(); at += at < 900 ? 1 : 101) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_THROW(snapshots::PrefixSnapshot::parse(trial::bytes_of(changed), "x"), FormatError)
        << at;
  }
}

// A file that is sealed, and contradicts itself.
TEST(PrefixSnapshot, RefusesPagesBehindNone) {
  const auto refused = [](std::vector<std::int64_t> parents, std::vector<std::uint64_t> spaces) {
    const trial::Folder folder;
    const Index count = std::ssize(parents);
    const std::vector<files::SealedWriter::Entry> entries = {
        {"tokens", "I32", {16 * count}},
        {"layers.0.keys", "F32", {1, 16 * count, 1}},
        {"layers.0.values", "F32", {1, 16 * count, 1}},
        {"pages.parents", "I64", {count}},
        {"pages.spaces", "U64", {count, 3}},
        {"pages.priorities", "I32", {count}}};
    files::SealedWriter writer(folder.path() / "x",
                               {{"format", "decant tree of prefixes"},
                                {"version", "1"},
                                {"model", "m"},
                                {"layers", "1"},
                                {"heads", "1"},
                                {"key_dim", "1"},
                                {"value_dim", "1"},
                                {"keys", "f32"},
                                {"values", "f32"},
                                {"kept", "0"}},
                               entries);
    const std::vector<std::int32_t> words(static_cast<std::size_t>(3 * 16 * count));
    writer.write(std::as_bytes(std::span(words)));
    writer.write(std::as_bytes(std::span(parents)));
    writer.write(std::as_bytes(std::span(spaces)));
    writer.write(std::as_bytes(std::span(words).first(static_cast<std::size_t>(count))));
    writer.commit();
    try {
      snapshots::PrefixSnapshot::open(folder.path() / "x");
      return false;
    } catch (const FormatError&) {
      return true;
    }
  };
  EXPECT_FALSE(refused({-1, 0}, {0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(refused({-1, 1}, {0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(refused({-2, 0}, {0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(refused({1, -1}, {0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(refused({-1, 0}, {0, 0, 0, 0, 0, 7}));
}

TEST(PrefixSnapshot, FromTheCorpusIsRefusedUnlessItsNameSaysThatItIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DECANT_FUZZ_CORPUS "/snapshot")) {
    const std::string bytes = trial::read_file(entry.path());
    const bool valid = entry.path().filename().string().starts_with("valid-");
    EXPECT_EQ(fuzz::accepts_snapshot(trial::bytes_of(bytes)), valid) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 12);
}

}  // namespace
