// tests/law/sharing.hpp - tokens fed to stores, and sequences that share pages in one step.
#pragma once

#include "law/models.hpp"

#include <decant/core/thread_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::trial {

// Feeds tokens to a store in chunks and gives the logits of all.
template <kv::Store S>
Rows feed(const model::Decoder& decoder, S& store, std::span<const Token> tokens, Index chunk) {
  model::Workspace workspace(decoder.config(), {.rows = chunk, .logit_rows = chunk});
  model::Batch<S> batch;
  Rows rows;
  for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(chunk)) {
    batch.clear();
    batch.add(store,
              tokens.subspan(at, std::min(static_cast<std::size_t>(chunk), tokens.size() - at)),
              model::Logits::all);
    decoder.step(batch, workspace);
    for (Index i = 0; i < batch.logit_rows(); ++i) {
      const auto logits = workspace.logits(i);
      rows.emplace_back(logits.begin(), logits.end());
    }
  }
  return rows;
}

inline Rows last(const Rows& rows, std::size_t count) {
  return Rows(rows.end() - static_cast<long>(count), rows.end());
}

// A sequence, its fork and one that reuses a cached prefix in one step, on one thread and on three.
template <codec::Codec C>
void expect_undisturbed_in_one_step() {
  const Family family = llama();
  const model::Decoder decoder = decoder_of(family);
  const auto one = random_tokens(family.config, 70, 8);
  auto other = one;
  other.back() = (other.back() + 1) % static_cast<Token>(family.config.vocabulary);
  const auto expected = [&](const std::vector<Token>& tokens) {
    kv::Contiguous<C> alone(family.config.geometry(), 70);
    return last(feed(decoder, alone, tokens, 70), 1);
  };
  const Rows alone_one = expected(one);
  const Rows alone_other = expected(other);
  for (Index count : {1, 3}) {
    ThreadPool threads(count);
    kv::PagePool<C> pool(family.config.geometry(), 12, 32);
    kv::PrefixTree<C> tree(pool);
    kv::Paged<C> origin(pool);
    feed(decoder, origin, std::span(one).first(69), 69);
    tree.insert({}, std::span(one).first(69), origin);
    kv::Paged<C> fork = origin.fork();
    kv::Paged<C> found = tree.match({}, one);
    ASSERT_EQ(found.end(), 64);
    model::Workspace workspace(decoder.config(), {.rows = 9, .logit_rows = 3, .sequences = 3},
                               threads);
    model::Batch<kv::Paged<C>> batch;
    batch.add(origin, std::span(one).last(1));
    batch.add(found, std::span(one).last(6));
    batch.add(fork, std::span(other).last(1));
    decoder.step(batch, workspace);
    EXPECT_TRUE(same_bits(alone_one[0], workspace.logits(0)));
    EXPECT_TRUE(same_bits(alone_one[0], workspace.logits(1)));
    EXPECT_TRUE(same_bits(alone_other[0], workspace.logits(2)));
  }
}

}  // namespace decant::trial
