// tests/decoding/session_test.cpp - a session never answers from the keys and values of another
// text.
#include "decoding/models.hpp"
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/session.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace decant::decoding {
namespace {

using Tokens = std::vector<Token>;
using Store = kv::Contiguous<codec::F32>;

class SessionTest : public testing::Test {
 protected:
  // What a prompt gives alone.
  Tokens fresh(const Tokens& prompt) {
    Store store(decoder_.config().geometry(), 200);
    return generate(decoder_, store, workspace_, prompt, options_).tokens;
  }
  template <class S>
  Generation ask(Session<S>& session, const Tokens& prompt) {
    return generate(decoder_, session, workspace_, prompt, options_);
  }

  model::Decoder decoder_ = reference::toy_decoder();
  model::Workspace workspace_{decoder_.config(), {.rows = 64, .logit_rows = 5}};
  GenerateOptions options_ = {.max_new_tokens = 9, .sampler = {.temperature = .9, .seed = 3}};
};

TEST_F(SessionTest, ComputesWhatAPromptHasNotInCommon) {
  Session session(Store(decoder_.config().geometry(), 200));
  EXPECT_EQ(ask(session, {5, 6, 7, 8}).tokens, fresh({5, 6, 7, 8}));
  const std::pair<Tokens, Index> turns[] = {
      {{5, 6, 7, 9, 1}, 3}, {{5, 6, 7, 9, 1}, 4}, {{2, 2}, 0}, {{2, 2, 3}, 2}, {{2}, 0}};
  for (const auto& [prompt, cached] : turns) {
    const Generation answer = ask(session, prompt);
    EXPECT_EQ(answer.statistics.cached_tokens, cached);
    EXPECT_EQ(answer.tokens, fresh(prompt));
    EXPECT_EQ(std::ssize(session.tokens()), session.store().end());
  }
}

TEST_F(SessionTest, HoldsTheTokensOfItsStore) {
  Session session(Store(decoder_.config().geometry(), 200));
  Tokens text = {5, 6, 7};
  const Tokens answer = ask(session, text).tokens;
  text.insert(text.end(), answer.begin(), answer.end());
  text.pop_back();  // the last token is not fed
  EXPECT_TRUE(std::ranges::equal(session.tokens(), text));
  text.push_back(1);
  EXPECT_EQ(session.cached_tokens(text), std::ssize(text) - 1);
}

TEST_F(SessionTest, HoldsThemAfterAnExceptionToo) {
  Session session(Store(decoder_.config().geometry(), 200));
  int calls = 0;
  const auto fail_late = [&](Token) {
    if (++calls == 4) throw std::runtime_error("the reader went away");
    return true;
  };
  const Tokens prompt = {5, 6, 7};
  EXPECT_THROW(generate(decoder_, session, workspace_, prompt, options_, fail_late),
               std::runtime_error);
  EXPECT_EQ(std::ssize(session.tokens()), 6);
  EXPECT_EQ(session.store().end(), 6);
  EXPECT_EQ(ask(session, prompt).tokens, fresh(prompt));
}

TEST_F(SessionTest, TakesADrafter) {
  Session session(Store(decoder_.config().geometry(), 200));
  NgramDrafter drafter{.shortest = 1};
  for (const Tokens& prompt : {Tokens{5, 5, 5, 5}, Tokens{5, 5, 6}}) {
    const auto answer = generate(
        decoder_, session, workspace_, prompt, options_, [](Token) { return true; }, drafter);
    EXPECT_EQ(answer.tokens, fresh(prompt));
    EXPECT_EQ(std::ssize(session.tokens()), session.store().end());
  }
}

TEST_F(SessionTest, ForksWithItsTokens) {
  kv::PagePool<codec::F32> pool(decoder_.config().geometry(), 40, 16);
  Session session{kv::Paged<codec::F32>(pool)};
  ask(session, {5, 6, 7, 8});
  Session fork = session.fork();
  EXPECT_EQ(ask(fork, {5, 6, 1}).tokens, fresh({5, 6, 1}));
  const Generation answer = ask(session, {5, 6, 7, 8, 2});
  EXPECT_EQ(answer.tokens, fresh({5, 6, 7, 8, 2}));
  EXPECT_EQ(answer.statistics.cached_tokens, 4);
}

// A ring that has overwritten the window of the first new token computes the prompt again.
TEST_F(SessionTest, IsAsItWasWhenOptionsAreRefused) {
  Session session(kv::Contiguous<codec::F32>(decoder_.config().geometry(), 60));
  model::Workspace workspace(decoder_.config(), {.rows = 16});
  const Tokens prompt = {5, 6, 7, 8};
  generate(decoder_, session, workspace, prompt, {.max_new_tokens = 3});
  const Tokens before(session.tokens().begin(), session.tokens().end());
  EXPECT_THROW(generate(decoder_, session, workspace, Tokens{9}, {.max_new_tokens = -1}),
               std::invalid_argument);
  EXPECT_THROW(generate(decoder_, session, workspace, Tokens(61, 1)), CacheFull);
  EXPECT_TRUE(std::ranges::equal(session.tokens(), before));
  EXPECT_EQ(session.store().end(), std::ssize(before));
}

TEST_F(SessionTest, BeginsARingAnewWhereItsWindowIsGone) {
  trial::Family family = trial::windowed();
  family.config.windows.assign(family.config.windows.size(), 8);
  const model::Decoder decoder = trial::decoder_of(family);
  model::Workspace workspace(decoder.config(), {.rows = 16});
  Session session(kv::Ring<codec::F32>(decoder.config().geometry(), 8, 4));
  const Tokens first = trial::random_tokens(family.config, 60, 1);
  generate(decoder, session, workspace, first, {.max_new_tokens = 0});
  Tokens next(first.begin(), first.begin() + 30);
  EXPECT_EQ(session.cached_tokens(next), 0);
  EXPECT_EQ(session.cached_tokens(first), 59);
  Store store(decoder.config().geometry(), 80);
  EXPECT_EQ(generate(decoder, session, workspace, next, {.max_new_tokens = 5}).tokens,
            generate(decoder, store, workspace, next, {.max_new_tokens = 5}).tokens);
}

TEST_F(SessionTest, RefusesOtherTokensThanItsStoreHolds) {
  Store store(decoder_.config().geometry(), 20);
  store.publish(3);
  EXPECT_THROW(Session(std::move(store), Tokens{1, 2}), std::invalid_argument);
  Session session(Store(decoder_.config().geometry(), 20));
  ask(session, {1, 2, 3});
  const auto held = session.store().end();
  EXPECT_THROW(ask(session, {}), std::invalid_argument);
  options_.cached_tokens = 2;
  EXPECT_THROW(ask(session, {1, 2, 3}), std::invalid_argument);
  EXPECT_EQ(session.store().end(), held);
}

}  // namespace
}  // namespace decant::decoding
