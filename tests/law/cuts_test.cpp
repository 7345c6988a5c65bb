// tests/law/cuts_test.cpp - decoding, recomputing and any cut of a prompt give the same bits.
#include "kv/stores.hpp"
#include "law/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace decant;
using trial::Family;
using trial::Rows;
using trial::Runner;

// Around the panels of 16, tiles of 64, row tiles of 96 and segments of 1024.
const std::vector<std::size_t> kLengths = {1,  15, 16,  17,   63,   64,   65,
                                           96, 97, 127, 1023, 1024, 1025, 2049};

class Cuts : public testing::TestWithParam<std::tuple<Family, codec::Type, codec::Type>> {};

// Tokens and their logits when fed one by one; `chunked` feeds them in chunks.
template <class K, class V>
class Prompt {
 public:
  Prompt(const model::Decoder& decoder, Index length)
      : decoder_(decoder),
        tokens_(trial::random_tokens(decoder.config(), length, 1)),
        expected_(trial::decoded<K, V>(decoder, tokens_)) {}

  Index length() const { return std::ssize(tokens_); }

  template <class Size>
  void expect_same_in_chunks(Size&& size) const {
    Runner<K, V> chunked(decoder_, length());
    EXPECT_TRUE(trial::same_rows(expected_, chunked.feed_in_chunks(tokens_, size)));
  }

  void expect_same_recomputed(std::size_t length) const {
    Runner<K, V> fresh(decoder_, static_cast<Index>(length));
    const Rows last = fresh.feed(std::span(tokens_).first(length), model::Logits::last);
    EXPECT_TRUE(trial::same_bits(expected_[length - 1], last.at(0))) << length << " tokens";
  }

 private:
  const model::Decoder& decoder_;
  std::vector<Token> tokens_;
  Rows expected_;
};

template <class K, class V = K>
void expect_every_cut_equal(const model::Decoder& decoder, Index length) {
  const Prompt<K, V> prompt(decoder, length);
  prompt.expect_same_in_chunks([](Index left) { return left; });
  for (std::size_t prefix : kLengths) {
    if (static_cast<Index>(prefix) <= length) prompt.expect_same_recomputed(prefix);
  }
  const std::vector<Index> sizes =
      length > 200 ? std::vector<Index>{7, 97} : std::vector<Index>{2, 3, 6, 16, 64};
  for (Index size : sizes) {
    SCOPED_TRACE(testing::Message() << "chunks of " << size);
    prompt.expect_same_in_chunks([&](Index left) { return std::min(size, left); });
  }
  for (unsigned seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "random chunks, seed " << seed);
    std::mt19937 random(seed);
    prompt.expect_same_in_chunks([&](Index left) {
      const unsigned most = random() % 3 == 0 ? 400 : 19;
      return std::min(left, 1 + static_cast<Index>(random() % most));
    });
  }
}

// The full length where cache and weights have one format, a shorter one elsewhere.
TEST_P(Cuts, GiveTheBitsOfDecodingTokenByToken) {
  const auto& [family, cache, weights] = GetParam();
  const bool full = cache == weights && !trial::kSlowBuild;
  const model::Decoder decoder = trial::decoder_of(family, weights);
  codec::visit(cache, [&](auto c) {
    expect_every_cut_equal<decltype(c)>(decoder, full ? 2049 : trial::kSlowBuild ? 70 : 131);
  });
}

std::string name_of(const testing::TestParamInfo<Cuts::ParamType>& info) {
  const auto& [family, cache, weights] = info.param;
  return family.name + "_cache_" + std::string(codec::name(cache)) + "_weights_" +
         std::string(codec::name(weights));
}

INSTANTIATE_TEST_SUITE_P(
    Law, Cuts,
    testing::Combine(testing::ValuesIn(trial::families()),
                     testing::Values(codec::Type::f32, codec::Type::bf16, codec::Type::f16),
                     testing::Values(codec::Type::f32, codec::Type::bf16, codec::Type::f16)),
    name_of);

// Keys in one format and values in another.
template <class Formats>
class FormatCuts : public testing::Test {};
using KeyValueFormats =
    testing::Types<trial::Formats<codec::F16, codec::Int8>, trial::Formats<codec::F16, codec::Int4>,
                   trial::Formats<codec::Int8, codec::F16>,
                   trial::Formats<codec::Int8, codec::Int4>,
                   trial::Formats<codec::Int4, codec::Int4>>;
TYPED_TEST_SUITE(FormatCuts, KeyValueFormats);

TYPED_TEST(FormatCuts, GiveTheBitsOfDecodingTokenByToken) {
  const model::Decoder decoder = trial::decoder_of(trial::wide_heads());
  expect_every_cut_equal<typename TypeParam::Keys, typename TypeParam::Values>(
      decoder, trial::kSlowBuild ? 40 : 131);
}

}  // namespace
