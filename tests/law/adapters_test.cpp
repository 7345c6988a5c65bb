// tests/law/adapters_test.cpp - a row under an adapter has the same bits alone, and beside rows
// with other adapters and with none; and these have the bits that they have without it.
#include "law/executors.hpp"
#include "law/models.hpp"

#include <decant/core/thread_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace decant;
using trial::Rows;
using trial::ShuffledExecutor;

template <class Store>
struct Member {
  const model::Adapter* adapter;
  std::vector<Token> tokens;
  Store store;
  Rows rows = {};
};

// Feeds random chunks of random members in each step, until all are at their ends.
template <class Store>
void feed_together(const model::Decoder& decoder, std::vector<Member<Store>>& members,
                   Executor& executor) {
  model::Workspace workspace(decoder.config(), {.rows = 400, .logit_rows = 400, .sequences = 16},
                             executor);
  model::Batch<Store> batch;
  std::mt19937 random(7);
  for (;;) {
    std::vector<Member<Store>*> left;
    for (auto& member : members) {
      if (member.store.end() < std::ssize(member.tokens)) left.push_back(&member);
    }
    if (left.empty()) return;
    std::shuffle(left.begin(), left.end(), random);
    left.resize(1 + random() % left.size());
    batch.clear();
    for (Member<Store>* member : left) {
      const auto rest = std::span<const Token>(member->tokens)
                            .subspan(static_cast<std::size_t>(member->store.end()));
      const std::size_t count = 1 + random() % (random() % 3 == 0 ? 60 : 2);
      batch.add(member->store, rest.first(std::min(rest.size(), count)), model::Logits::all,
                member->adapter);
    }
    decoder.step(batch, workspace);
    Index row = 0;
    for (std::size_t at = 0; at < left.size(); ++at) {
      for (Index i = 0; i < batch.entries()[at].rows; ++i) {
        const auto logits = workspace.logits(row++);
        left[at]->rows.emplace_back(logits.begin(), logits.end());
      }
    }
  }
}

// Three adapters, and none; two sequences of each.
template <class Store, class Make>
void expect_each_as_alone(const trial::Family& family, codec::Type weights, Executor& executor,
                          Make&& store) {
  SCOPED_TRACE(family.name);
  const model::Decoder decoder = trial::decoder_of(family, weights);
  const model::Config& config = decoder.config();
  const model::Projection some[] = {model::Projection::value};
  const model::Adapter one = trial::adapter_of(config, 3), other = trial::adapter_of(config, 16);
  const model::Adapter part =
      reference::to_adapter(config, reference::random_changes(config, 5, 2, some));
  std::vector<Member<Store>> members;
  for (const model::Adapter* adapter :
       {&one, &other, &part, static_cast<const model::Adapter*>(nullptr)}) {
    for (Index length : {30, 77}) {
      const auto seed = static_cast<unsigned>(members.size());
      members.push_back({adapter, trial::random_tokens(config, length, seed), store(config)});
    }
  }
  feed_together(decoder, members, executor);
  for (const Member<Store>& member : members) {
    EXPECT_TRUE(trial::same_rows(
        trial::decoded<typename Store::Keys>(decoder, member.tokens, member.adapter), member.rows));
  }
}

template <codec::Codec C>
kv::Contiguous<C> contiguous(const model::Config& config) {
  return trial::poisoned_store<C>(config, 80);
}

TEST(AdapterLaw, OtherAdaptersInTheBatchChangeNoBit) {
  for (const trial::Family& family :
       {trial::llama(), trial::windowed(), trial::normed_heads(), trial::gpt2()}) {
    expect_each_as_alone<kv::Contiguous<codec::F32>>(family, codec::Type::f32, serial_executor(),
                                                     contiguous<codec::F32>);
  }
}

TEST(AdapterLaw, HoldsOverQuantisedWeightsAndCaches) {
  expect_each_as_alone<kv::Contiguous<codec::BF16>>(trial::llama(), codec::Type::bf16,
                                                    serial_executor(), contiguous<codec::BF16>);
}

TEST(AdapterLaw, ThreadsChangeNoBit) {
  ThreadPool pool(3);
  ShuffledExecutor shuffled(4, 1);
  for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&shuffled)}) {
    expect_each_as_alone<kv::Contiguous<codec::F32>>(trial::llama(), codec::Type::f32, *executor,
                                                     contiguous<codec::F32>);
  }
}

TEST(AdapterLaw, PagesChangeNoBit) {
  kv::PagePool<codec::F32> pool(trial::llama().config.geometry(), 64, 16);
  expect_each_as_alone<kv::Paged<codec::F32>>(
      trial::llama(), codec::Type::f32, serial_executor(),
      [&](const model::Config&) { return kv::Paged<codec::F32>(pool); });
}

// A ring takes a few rows at once, so that a step of more runs in parts.
TEST(AdapterLaw, PartsChangeNoBit) {
  const trial::Family family = trial::streaming();
  const model::Decoder decoder = trial::decoder_of(family);
  const model::Adapter adapter = trial::adapter_of(family.config, 8);
  const auto tokens = trial::random_tokens(family.config, 60, 2);
  kv::Ring<codec::F32> ring(family.config.geometry(), 33, 7, family.config.sink_tokens);
  model::Workspace workspace(family.config, {.rows = 60, .logit_rows = 60});
  model::Batch<kv::Ring<codec::F32>> batch;
  batch.add(ring, tokens, model::Logits::all, &adapter);
  decoder.step(batch, workspace);
  const Rows expected = trial::decoded<codec::F32>(decoder, tokens, &adapter);
  for (std::size_t row = 0; row < expected.size(); ++row) {
    EXPECT_TRUE(trial::same_bits(expected[row], workspace.logits(static_cast<Index>(row))));
  }
}

TEST(AdapterLaw, ChunksChangeNoBit) {
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const model::Adapter adapter = trial::adapter_of(decoder.config(), 8);
  const auto tokens = trial::random_tokens(decoder.config(), 130, 2);
  const Rows expected = trial::decoded<codec::F32>(decoder, tokens, &adapter);
  for (Index size : {2, 23, 24, 25, 49, 130}) {
    trial::Runner<codec::F32> run(decoder, 130, serial_executor(), &adapter);
    EXPECT_TRUE(trial::same_rows(
        expected, run.feed_in_chunks(tokens, [=](Index left) { return std::min(size, left); })))
        << "chunks of " << size;
  }
}

// The adapters of a product take one parallel region, however many they are.
TEST(AdapterLaw, AllAdaptersOfAProductRunTogether) {
  using Store = kv::Contiguous<codec::F32>;
  const model::Decoder decoder = trial::decoder_of(trial::llama());
  const auto regions = [&](std::size_t adapters) {
    std::vector<model::Adapter> list;
    std::vector<Store> stores;
    for (std::size_t at = 0; at < 4; ++at) {
      list.push_back(trial::adapter_of(decoder.config(), at));
      stores.push_back(contiguous<codec::F32>(decoder.config()));
    }
    ShuffledExecutor executor(2, 1);
    model::Workspace workspace(decoder.config(), {.rows = 8, .logit_rows = 4, .sequences = 4},
                               executor);
    model::Batch<Store> batch;
    const std::vector<Token> tokens = {1, 2};
    for (std::size_t at = 0; at < 4; ++at) {
      batch.add(stores[at], tokens, model::Logits::last, at < adapters ? &list[at] : nullptr);
    }
    decoder.step(batch, workspace);
    return executor.items().size();
  };
  const std::size_t layers = static_cast<std::size_t>(decoder.config().layers);
  EXPECT_EQ(regions(1), regions(0) + 4 * layers);
  EXPECT_EQ(regions(4), regions(1));
}

}  // namespace
