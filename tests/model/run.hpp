// tests/model/run.hpp - a model's logits for a list of tokens in chunks, and greedy tokens.
#pragma once

#include "law/bits.hpp"
#include "law/models.hpp"
#include "reference/matrix.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/types.hpp>
#include <decant/model/decoder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace decant::trial {

inline Token argmax(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The largest difference in the rows that both lists have; NaN where a row does not match.
template <class A, class B>
double worst_difference(const A& a, const B& b) {
  double worst = 0;
  for (std::size_t row = 0; row < std::min(std::size(a), std::size(b)); ++row) {
    const double difference = reference::max_difference(a[row], b[row]);
    if (std::isnan(difference)) return difference;
    worst = std::max(worst, difference);
  }
  return worst;
}

// All logits when the tokens are fed in chunks of at most `size`.
template <codec::Codec C = codec::F32>
Rows chunked(const model::Decoder& decoder, std::span<const Token> tokens, std::size_t size,
             const model::Adapter* adapter = nullptr) {
  const auto most = static_cast<Index>(size);
  return Runner<C>(decoder, std::ssize(tokens), serial_executor(), adapter)
      .feed_in_chunks(tokens, [=](Index left) { return std::min(most, left); });
}

// What follows the last token, computed from an empty store.
template <codec::Codec C = codec::F32>
std::vector<float> recomputed_last(const model::Decoder& decoder, std::span<const Token> tokens) {
  return Runner<C>(decoder, std::ssize(tokens)).feed(tokens, model::Logits::last).back();
}

// All logits when every row of them is computed from an empty store.
template <codec::Codec C = codec::F32>
Rows recomputed(const model::Decoder& decoder, std::span<const Token> tokens) {
  Rows all;
  for (std::size_t size = 1; size <= tokens.size(); ++size) {
    all.push_back(recomputed_last<C>(decoder, tokens.first(size)));
  }
  return all;
}

// `count` greedy tokens after the prompt, one step each.
template <codec::Codec C = codec::F32>
std::vector<Token> greedy(const model::Decoder& decoder, std::span<const Token> prompt,
                          Index count) {
  Runner<C> runner(decoder, std::ssize(prompt) + count);
  std::vector<Token> answer = {argmax(runner.feed(prompt).back())};
  while (std::ssize(answer) < count) {
    const Token last = answer.back();
    answer.push_back(argmax(runner.feed({&last, 1}).back()));
  }
  return answer;
}

// The same, with the whole prefix computed again for every token.
template <codec::Codec C = codec::F32>
std::vector<Token> greedy_recomputed(const model::Decoder& decoder, std::span<const Token> prompt,
                                     Index count) {
  std::vector<Token> tokens(prompt.begin(), prompt.end());
  for (Index i = 0; i < count; ++i) {
    tokens.push_back(argmax(recomputed_last<C>(decoder, tokens)));
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

// Expects both ways to give `answer`; in a slow build, the way that computes again its beginning.
inline void expect_greedy(const model::Decoder& decoder, std::span<const Token> prompt,
                          const std::vector<Token>& answer) {
  const Index count = std::ssize(answer);
  const Index again = kSlowBuild ? std::min<Index>(count, 24) : count;
  EXPECT_EQ(greedy(decoder, prompt, count), answer);
  EXPECT_EQ(greedy_recomputed(decoder, prompt, again),
            std::vector<Token>(answer.begin(), answer.begin() + again));
}

}  // namespace decant::trial
