// tests/law/stores_test.cpp - every kind of store gives the same bits: in pages of any size,
// forked, rewound, and in one step with sequences that share its pages.
#include "law/models.hpp"
#include "law/sharing.hpp"

#include <decant/codec/scaled.hpp>
#include <decant/kv/layered.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using trial::feed;
using trial::last;
using trial::Rows;

template <class C>
class Stores : public testing::Test {};
using CacheCodecs = testing::Types<codec::F32, codec::BF16, codec::F16, codec::Int8, codec::Int4,
                                   codec::FP8E4M3, codec::FP8E5M2>;
TYPED_TEST_SUITE(Stores, CacheCodecs);

TYPED_TEST(Stores, GiveTheBitsOfAContiguousOneInPagesOfAnySize) {
  const Index tokens = trial::kSlowBuild ? 150 : 1100;
  for (const trial::Family& family : {trial::llama(), trial::windowed()}) {
    const model::Decoder decoder = trial::decoder_of(family);
    const auto prompt = trial::random_tokens(family.config, tokens, 3);
    kv::Contiguous<TypeParam> contiguous(family.config.geometry(), tokens);
    const Rows expected = feed(decoder, contiguous, prompt, 97);
    for (Index page_tokens : {16, 32, 48, 64, 256}) {
      kv::PagePool<TypeParam> pool(family.config.geometry(), tokens / page_tokens + 3, page_tokens);
      kv::Paged<TypeParam> neighbour(pool);
      feed(decoder, neighbour, std::span(prompt).first(5), 5);
      kv::Paged<TypeParam> store(pool);
      EXPECT_TRUE(trial::same_rows(expected, feed(decoder, store, prompt, 61)))
          << family << ", pages of " << page_tokens;
    }
  }
}

TYPED_TEST(Stores, GiveTheSameBitsAfterForksAndRewinds) {
  const trial::Family family = trial::normed_heads();
  const model::Decoder decoder = trial::decoder_of(family);
  const auto one = trial::random_tokens(family.config, 90, 4);
  auto other = one;
  const auto tail = trial::random_tokens(family.config, 50, 5);
  std::copy(tail.begin(), tail.end(), other.begin() + 40);
  kv::Contiguous<TypeParam> alone(family.config.geometry(), 90);
  const Rows expected_one = feed(decoder, alone, one, 13);
  alone.rewind(0);
  const Rows expected_other = feed(decoder, alone, other, 13);

  kv::PagePool<TypeParam> pool(family.config.geometry(), 9, 32);
  kv::Paged<TypeParam> store(pool);
  feed(decoder, store, std::span(one).first(40), 40);
  kv::Paged<TypeParam> fork = store.fork();
  EXPECT_EQ(pool.used_pages(), 2);
  const Rows of_fork = feed(decoder, fork, std::span(other).subspan(40), 7);
  EXPECT_EQ(pool.used_pages(), 2 + 2);  // a copy of the second page, and a third
  EXPECT_TRUE(trial::same_rows(last(expected_other, 50), of_fork));
  const Rows of_store = feed(decoder, store, std::span(one).subspan(40), 9);
  EXPECT_TRUE(trial::same_rows(last(expected_one, 50), of_store));
  EXPECT_EQ(pool.used_pages(), 1 + 2 + 2);

  fork.rewind(40);
  EXPECT_EQ(pool.used_pages(), 1 + 2 + 1);
  EXPECT_TRUE(trial::same_rows(last(expected_one, 50),
                               feed(decoder, fork, std::span(one).subspan(40), 50)));
  fork.rewind(20);  // into a page that is shared and full
  EXPECT_TRUE(
      trial::same_rows(last(expected_one, 70), feed(decoder, fork, std::span(one).subspan(20), 1)));
  EXPECT_TRUE(
      trial::same_rows(last(expected_one, 1),
                       (store.rewind(89), feed(decoder, store, std::span(one).subspan(89), 1))));
}

TYPED_TEST(Stores, GiveTheSameBitsInOneStepWithSequencesThatShareTheirPages) {
  trial::expect_undisturbed_in_one_step<TypeParam>();
}

// Two layers with windows of 65 and 97: both fit a ring of 97.
trial::Family all_windowed() {
  trial::Family family = trial::windowed();
  family.config.windows = {65, 97, 1};
  return family;
}

TYPED_TEST(Stores, GiveTheBitsOfAContiguousOneInARingOfTheWindow) {
  const trial::Family family = all_windowed();
  const model::Decoder decoder = trial::decoder_of(family);
  const Index tokens = trial::kSlowBuild ? 400 : 1300;
  const auto prompt = trial::random_tokens(family.config, tokens, 6);
  kv::Contiguous<TypeParam> contiguous(family.config.geometry(), tokens);
  const Rows expected = feed(decoder, contiguous, prompt, 64);
  const std::vector<Index> chunks =
      trial::kSlowBuild ? std::vector<Index>{17, 130} : std::vector<Index>{1, 2, 15, 16, 17, 130};
  for (Index window : {97, 98, 112, 200}) {
    for (Index chunk : chunks) {
      kv::Ring<TypeParam> ring(family.config.geometry(), window, chunk);
      EXPECT_TRUE(trial::same_rows(expected, feed(decoder, ring, prompt, chunk)))
          << "window " << window << ", chunks of " << chunk;
      EXPECT_EQ(ring.end(), tokens);
      EXPECT_EQ(ring.bytes(),
                kv::Ring<TypeParam>::bytes_for(family.config.geometry(), window, chunk));
      const Position back = ring.earliest_rewind();
      ASSERT_GT(back, 0);
      ASSERT_LT(back, tokens);
      EXPECT_THROW(ring.rewind(back - 1), CannotRewind);
      ring.rewind(back);
      const auto again = std::span(prompt).subspan(static_cast<std::size_t>(back));
      EXPECT_TRUE(
          trial::same_rows(last(expected, again.size()), feed(decoder, ring, again, chunk)));
      ring.rewind(0);
      EXPECT_TRUE(trial::same_rows(Rows(expected.begin(), expected.begin() + 40),
                                   feed(decoder, ring, std::span(prompt).first(40), chunk)));
    }
  }
}

// Three formats are enough: the parts were tested in all of them above.
template <class C>
class LayeredStores : public testing::Test {};
using SomeCodecs = testing::Types<codec::F32, codec::BF16, codec::Int4>;
TYPED_TEST_SUITE(LayeredStores, SomeCodecs);

// Layers with windows of 65 and 1025 in a ring, and one without in pages.
TYPED_TEST(LayeredStores, GiveTheBitsOfAContiguousOne) {
  const trial::Family family = trial::windowed();
  const model::Decoder decoder = trial::decoder_of(family);
  const Index tokens = trial::kSlowBuild ? 150 : 1300;
  const Index window = 1025;
  const auto prompt = trial::random_tokens(family.config, tokens, 7);
  kv::Contiguous<TypeParam> contiguous(family.config.geometry(), tokens);
  const Rows expected = feed(decoder, contiguous, prompt, 64);
  const auto part = [&](Index layers) {
    kv::Geometry geometry = family.config.geometry();
    geometry.layers = layers;
    return geometry;
  };
  kv::PagePool<TypeParam> pool(part(1), tokens / 48 + 1, 48);
  for (Index chunk : {1, 33}) {
    kv::Layered store(family.config.windows, kv::Ring<TypeParam>(part(2), window, chunk),
                      kv::Paged<TypeParam>(pool));
    EXPECT_TRUE(trial::same_rows(expected, feed(decoder, store, prompt, chunk)));
    const Position back = std::max(store.earliest_rewind(), tokens - 20);
    store.rewind(back);
    const auto again = std::span(prompt).subspan(static_cast<std::size_t>(back));
    EXPECT_TRUE(trial::same_rows(last(expected, again.size()), feed(decoder, store, again, chunk)));
  }
}

TYPED_TEST(Stores, GiveTheBitsOfAContiguousOneInARingWithSinkTokens) {
  const trial::Family family = trial::streaming();
  const model::Decoder decoder = trial::decoder_of(family);
  const auto prompt = trial::random_tokens(family.config, 260, 11);
  kv::Contiguous<TypeParam> contiguous(family.config.geometry(), 260);
  const Rows expected = feed(decoder, contiguous, prompt, 64);
  for (Index sinks : {5, 16, 17}) {
    for (Index chunk : {1, 17, 64}) {
      kv::Ring<TypeParam> ring(family.config.geometry(), 33, chunk, sinks);
      EXPECT_TRUE(trial::same_rows(expected, feed(decoder, ring, prompt, chunk)))
          << sinks << " sink tokens, chunks of " << chunk;
      const Position back = ring.earliest_rewind();
      ASSERT_GT(back, 0);
      ring.rewind(back);
      const auto again = std::span(prompt).subspan(static_cast<std::size_t>(back));
      EXPECT_TRUE(
          trial::same_rows(last(expected, again.size()), feed(decoder, ring, again, chunk)));
    }
  }
  for (Index sinks : {17, 100}) {  // more than the first steps have
    trial::Family many = trial::streaming();
    many.config.sink_tokens = sinks;
    const model::Decoder other = trial::decoder_of(many);
    kv::Contiguous<TypeParam> whole(many.config.geometry(), 260);
    const Rows right = feed(other, whole, prompt, 260);
    kv::Ring<TypeParam> ring(many.config.geometry(), 33, 1, sinks);
    EXPECT_TRUE(trial::same_rows(right, feed(other, ring, prompt, 1))) << sinks << " sink tokens";
  }
  for (Index too_few : {0, 4}) {
    kv::Ring<TypeParam> ring(family.config.geometry(), 33, 17, too_few);
    EXPECT_THROW(feed(decoder, ring, prompt, 17), std::invalid_argument) << too_few;
    EXPECT_EQ(ring.end(), 0);
  }
}

TYPED_TEST(Stores, OfAWindowRefuseModelsWithALongerWindow) {
  const trial::Family family = trial::windowed();  // 65, 1025 and all
  const model::Decoder decoder = trial::decoder_of(family);
  kv::Ring<TypeParam> ring(family.config.geometry(), 1025, 8);
  const std::vector<Token> prompt = {1, 2};
  EXPECT_THROW(feed(decoder, ring, prompt, 2), std::invalid_argument);
  EXPECT_EQ(ring.end(), 0);
  const trial::Family narrow = all_windowed();
  const model::Decoder other = trial::decoder_of(narrow);
  kv::Ring<TypeParam> short_ring(narrow.config.geometry(), 96, 8);
  EXPECT_THROW(feed(other, short_ring, prompt, 2), std::invalid_argument);
}

// A step of two sequences with more rows than their rings take at once.
TYPED_TEST(Stores, OfAWindowTakeStepsOfMoreRowsThanTheirChunk) {
  const trial::Family family = all_windowed();
  const model::Decoder decoder = trial::decoder_of(family);
  const auto one = trial::random_tokens(family.config, 300, 9);
  const auto other = trial::random_tokens(family.config, 130, 10);
  const auto alone = [&](const std::vector<Token>& tokens) {
    kv::Contiguous<TypeParam> store(family.config.geometry(), 300);
    return feed(decoder, store, tokens, 300);
  };
  const Rows expected_one = alone(one);
  const Rows expected_other = alone(other);
  kv::Ring<TypeParam> ring(family.config.geometry(), 97, 16);
  kv::Ring<TypeParam> wide(family.config.geometry(), 97, 60);  // logits of its last row only
  model::Workspace workspace(decoder.config(), {.rows = 430, .logit_rows = 301, .sequences = 2});
  model::Batch<kv::Ring<TypeParam>> batch;
  batch.add(wide, other);
  batch.add(ring, one, model::Logits::all);
  decoder.step(batch, workspace);
  EXPECT_EQ(ring.end(), 300);
  EXPECT_EQ(wide.end(), 130);
  EXPECT_TRUE(trial::same_bits(expected_other.back(), workspace.logits(0)));
  for (Index row = 0; row < 300; ++row) {
    ASSERT_TRUE(
        trial::same_bits(expected_one[static_cast<std::size_t>(row)], workspace.logits(1 + row)))
        << "row " << row;
  }
}

}  // namespace
