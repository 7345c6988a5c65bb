// tests/model/context_shift_test.cpp - tokens removed from the middle: keys rotate as the
// arithmetic of angles says, forks and refused calls change nothing.
#include <decant/model/context_shift.hpp>

#include "kv/stores.hpp"
#include "law/models.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/kv/paged.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using codec::F32;
using codec::Int4;
using codec::Int8;
using trial::Rows;
using trial::Runner;

// One head of two dimensions, rotated by its position.
model::Config one_rotary_pair() {
  model::Config config = trial::small_config();
  config.layers = config.kv_heads = 1;
  config.heads = 1;
  config.key_dim = 2;
  config.value_dim = 1;
  config.rope = attention::Rope{.theta = 1.0};
  return config;
}

std::vector<float> key_at(const auto& store, Position at, Index dim) {
  std::vector<float> key(static_cast<std::size_t>(dim));
  std::vector<float> value(static_cast<std::size_t>(store.geometry().value_dim));
  store.get(0, 0, at, key, value);
  return key;
}

TEST(ContextShift, RotatesKeysBackOnceForEveryTokenRemovedBeforeThem) {
  const model::Config config = one_rotary_pair();
  kv::Contiguous<F32> store(config.geometry(), 16);
  store.reserve(11);
  for (Position at = 0; at < 11; ++at) {
    const std::vector<float> key = {std::cos(static_cast<float>(at)),
                                    std::sin(static_cast<float>(at))};
    store.put(0, 0, at, key, std::vector<float>{static_cast<float>(at)});
  }
  store.publish(11);
  model::context_shift(config, store, {2, 5});
  model::context_shift(config, store, {1, 3});  // the second removal counts on top of the first
  EXPECT_EQ(store.end(), 6);
  const std::vector<float> key = key_at(store, 5, 2);
  EXPECT_NEAR(key[0], 0.283662, 1e-6);
  EXPECT_NEAR(key[1], -0.958924, 1e-6);
  std::vector<float> last(2), value(1);
  store.get(0, 0, 5, last, value);
  EXPECT_EQ(value[0], 10.0f);
  store.get(0, 0, 0, last, value);
  EXPECT_EQ(value[0], 0.0f);
}

// Every second of many tokens is removed, from the front or from the back: no row is lost, nor
// rotated once too often.
TEST(ContextShift, RemovesAnyNumberOfRanges) {
  const model::Config config = one_rotary_pair();
  constexpr Index kTokens = trial::kSlowBuild ? 256 : 4096;
  for (const bool from_the_front : {true, false}) {
    kv::Contiguous<F32> store(config.geometry(), kTokens);
    store.reserve(kTokens);
    for (Position at = 0; at < kTokens; ++at) {
      const auto angle = static_cast<double>(at);
      const std::vector<float> key = {static_cast<float>(std::cos(angle)),
                                      static_cast<float>(std::sin(angle))};
      store.put(0, 0, at, key, std::vector<float>{static_cast<float>(at)});
    }
    store.publish(kTokens);
    for (Index n = 0; n < kTokens / 2; ++n) {
      const Position at = from_the_front ? n : kTokens - 2 * (n + 1);
      model::context_shift(config, store, {at, at + 1});
    }
    ASSERT_EQ(store.end(), kTokens / 2);
    std::vector<float> key(2), value(1);
    for (Position at = 0; at < store.end(); ++at) {
      store.get(0, 0, at, key, value);
      ASSERT_EQ(value[0], static_cast<float>(2 * at + 1));
      const double angle =
          static_cast<double>(at);  // of the key put at 2 at + 1, rotated by at + 1
      ASSERT_NEAR(key[0], std::cos(angle), 2e-4) << at;
      ASSERT_NEAR(key[1], std::sin(angle), 2e-4) << at;
    }
    const std::vector<float> before = key_at(store, store.end() - 1, 2);
    model::context_shift(config, store, {7, 7});
    EXPECT_EQ(key_at(store, store.end() - 1, 2), before);
  }
}

template <class Formats>
class ContextShiftOf : public testing::Test {};
using ContextShiftFormats =
    testing::Types<trial::Formats<Int8, Int8>, trial::Formats<Int4, Int4>,
                   trial::Formats<codec::FP8E4M3, codec::FP8E4M3>, trial::Formats<Int8, Int4>>;
TYPED_TEST_SUITE(ContextShiftOf, ContextShiftFormats);

// Twenty keys of 70 elements, in groups if the format has them, of which 64 are rotated.
model::Config one_wide_head() {
  model::Config config = one_rotary_pair();
  config.key_dim = 70;
  config.value_dim = 45;
  config.rope = attention::Rope{};
  config.rope->rotary_dim = 64;
  return config;
}
template <kv::Store S>
S twenty_rows() {
  S store(one_wide_head().geometry(), 20);
  store.reserve(20);
  for (Position at = 0; at < 20; ++at) {
    std::vector<float> key(70);
    for (std::size_t i = 0; i < key.size(); ++i) {
      key[i] = std::sin(0.7f * static_cast<float>(i) + static_cast<float>(at));
    }
    store.put(0, 0, at, key, trial::noisy(45, 1 + static_cast<std::uint64_t>(at)));
  }
  store.publish(20);
  return store;
}

// Keys are within two steps of those of f32, and values are unchanged: rounding a rounded value
// again changes no bit.
TYPED_TEST(ContextShiftOf, RotatesTheValuesOfAKeyAndNotItsCells) {
  using K = typename TypeParam::Keys;
  using Cache = kv::Contiguous<K, typename TypeParam::Values>;
  const Cache before = twenty_rows<Cache>();
  auto store = twenty_rows<Cache>();
  auto exact = twenty_rows<kv::Contiguous<F32>>();
  model::context_shift(one_wide_head(), store, {3, 8});
  model::context_shift(one_wide_head(), exact, {3, 8});
  ASSERT_EQ(store.end(), 15);
  const float step = K::kType == codec::Type::fp8_e4m3 ? 1.0f / 8 : 1 / K::kLargest;
  std::vector<float> key(70), right(70), value(45), old_value(45);
  for (Position at = 0; at < 15; ++at) {
    before.get(0, 0, at < 3 ? at : at + 5, key, old_value);
    exact.get(0, 0, at, right, value);
    store.get(0, 0, at, key, value);
    const auto [least, most] = std::ranges::minmax(right);
    for (std::size_t i = 0; i < key.size(); ++i) {
      EXPECT_NEAR(key[i], right[i], 2 * std::max(-least, most) * step);
    }
    EXPECT_TRUE(trial::same_bits(old_value, value));
  }
}

// In a model of one layer keys and values do not depend on other tokens, so the shift is exact.
TEST(ContextShift, EqualsRecomputingIfThereIsOneLayer) {
  trial::Family family = trial::normed_heads();
  family.config.layers = 1;
  for (auto pairing : {attention::Pairing::half_split, attention::Pairing::interleaved}) {
    family.config.rope->pairing = pairing;
    family.config.rope->rotary_dim = 8;
    const model::Decoder decoder = trial::decoder_of(family);
    std::vector<Token> tokens = trial::random_tokens(family.config, 120, 3);
    Runner<F32> shifted(decoder, 120);
    shifted.feed(std::span(tokens).first(119));
    model::context_shift(family.config, shifted.store(), {17, 70});
    const Rows after = shifted.feed(std::span(tokens).last(1));
    tokens.erase(tokens.begin() + 17, tokens.begin() + 70);
    const Rows fresh = trial::decoded<F32>(decoder, tokens);
    EXPECT_LT(reference::max_difference(after.back(), fresh.back()), 2e-5);
  }
}

TEST(ContextShift, GivesTheSameBitsInPagesAndLeavesForksAlone) {
  const trial::Family family = trial::llama();
  const model::Decoder decoder = trial::decoder_of(family);
  const std::vector<Token> tokens = trial::random_tokens(family.config, 101, 3);
  Runner<F32> contiguous(decoder, 101);
  contiguous.feed(std::span(tokens).first(100));
  const Rows whole = contiguous.feed(std::span(tokens).last(1));
  contiguous.store().rewind(100);
  model::context_shift(family.config, contiguous.store(), {10, 43});
  const Rows expected = contiguous.feed(std::span(tokens).last(1));
  EXPECT_FALSE(trial::same_rows(whole, expected));

  kv::PagePool<F32> pool(family.config.geometry(), 13, 16);
  kv::Paged<F32> store(pool);
  model::Workspace workspace(family.config, {.rows = 100});
  model::Batch<kv::Paged<F32>> batch;
  const auto feed = [&](kv::Paged<F32>& to, std::span<const Token> some) {
    batch.clear();
    batch.add(to, some);
    decoder.step(batch, workspace);
    return std::vector(workspace.logits(0).begin(), workspace.logits(0).end());
  };
  feed(store, std::span(tokens).first(100));
  kv::Paged<F32> fork = store.fork();
  model::context_shift(family.config, store, {10, 43});
  EXPECT_EQ(store.end(), 67);
  EXPECT_TRUE(trial::same_bits(expected.back(), feed(store, std::span(tokens).last(1))));
  EXPECT_TRUE(trial::same_bits(whole.back(), feed(fork, std::span(tokens).last(1))));

  fork.rewind(100);
  kv::Paged<F32> reference = fork.fork();
  EXPECT_THROW(model::context_shift(family.config, fork, {1, 2}), CacheFull);
  EXPECT_TRUE(trial::same_bits(whole.back(), feed(fork, std::span(tokens).last(1))));
}

TEST(ContextShift, NeedsNoPageWhereNoneIsShared) {
  const trial::Family family = trial::llama();
  const model::Decoder decoder = trial::decoder_of(family);
  const std::vector<Token> tokens = trial::random_tokens(family.config, 48, 3);
  kv::PagePool<F32> pool(family.config.geometry(), 3, 16);
  kv::Paged<F32> store(pool);
  Runner<F32> contiguous(decoder, 48);
  model::Workspace workspace(family.config, {.rows = 48});
  model::Batch<kv::Paged<F32>> batch;
  batch.add(store, tokens);
  decoder.step(batch, workspace);
  contiguous.feed(tokens);
  EXPECT_EQ(pool.free_pages(), 0);
  model::context_shift(family.config, store, {3, 20});
  model::context_shift(family.config, contiguous.store(), {3, 20});
  EXPECT_EQ(pool.free_pages(), 1);
  batch.clear();
  batch.add(store, std::span(tokens).first(1));
  decoder.step(batch, workspace);
  EXPECT_TRUE(
      trial::same_bits(contiguous.feed(std::span(tokens).first(1)).back(), workspace.logits(0)));
}

TEST(ContextShift, RefusesInvalidRangesAndStores) {
  const trial::Family family = trial::llama();
  kv::Contiguous<F32> store(family.config.geometry(), 32);
  store.reserve(8);
  store.publish(8);
  for (const Range gap : {Range{-1, 2}, Range{3, 2}, Range{5, 9}}) {
    EXPECT_THROW(model::context_shift(family.config, store, gap), std::invalid_argument);
  }
  EXPECT_EQ(store.end(), 8);
  model::context_shift(family.config, store, {3, 3});
  EXPECT_EQ(store.end(), 8);
  EXPECT_THROW(model::context_shift(trial::gpt2().config, store, {1, 2}), std::invalid_argument);
}

}  // namespace
