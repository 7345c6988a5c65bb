// tests/decoding/adapters_test.cpp - every kind of run under an adapter, and how the keys
// and values of different adapters stay apart.
#include "law/models.hpp"
#include "reference/adapter.hpp"

#include <decant/decoding/beam.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/decoding/scheduler.hpp>
#include <decant/decoding/service.hpp>
#include <decant/decoding/session.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using decoding::BeamOptions;
using decoding::GenerateOptions;
using decoding::Request;
using F32 = codec::F32;
using Paged = kv::Paged<F32>;

class AdaptedRuns : public testing::Test {
 protected:
  AdaptedRuns() {
    const reference::Model random = reference::random_model(family_.config, 5, family_.parts);
    const reference::Changes changes =
        reference::random_changes(family_.config, 3, 4, reference::all_projections(family_.config));
    adapter_ = std::make_shared<model::Adapter>(reference::to_adapter(family_.config, changes));
    merged_ = std::make_unique<model::Decoder>(
        family_.config, reference::to_weights(reference::merged(random, changes)));
  }

  std::vector<Token> generate(const model::Decoder& decoder, const GenerateOptions& options) {
    kv::Contiguous<F32> store(family_.config.geometry(), 60);
    return decoding::generate(decoder, store, workspace_, prompt_, options).tokens;
  }
  GenerateOptions sampled(std::shared_ptr<const model::Adapter> adapter = {},
                          std::uint64_t sequence = 0) const {
    return {.max_new_tokens = 20,
            .sampler = {.temperature = 1.0, .seed = 4},
            .sequence = sequence,
            .adapter = std::move(adapter)};
  }

  trial::Family family_ = trial::llama();
  model::Decoder decoder_ = trial::decoder_of(family_);
  std::shared_ptr<const model::Adapter> adapter_;
  std::unique_ptr<model::Decoder> merged_;  // with the adapter in its weights, rounded otherwise
  std::vector<Token> prompt_ = trial::random_tokens(family_.config, 33, 1);
  model::Workspace workspace_{family_.config, {.rows = 40, .logit_rows = 8, .sequences = 8}};
  kv::PagePool<F32> pool_{family_.config.geometry(), 64, 16};
};

TEST_F(AdaptedRuns, OfGenerateGiveTheTokensOfMergedWeights) {
  EXPECT_EQ(generate(decoder_, sampled(adapter_)), generate(*merged_, sampled()));
  EXPECT_NE(generate(decoder_, sampled(adapter_)), generate(decoder_, sampled()));
  GenerateOptions recomputed = sampled(adapter_);
  recomputed.recompute = true;
  EXPECT_EQ(generate(decoder_, recomputed), generate(decoder_, sampled(adapter_)));
}

TEST_F(AdaptedRuns, OfSamplesGiveTheTokensOfEachAlone) {
  Paged store(pool_);
  const auto samples =
      decoding::generate_samples(decoder_, store, workspace_, prompt_, sampled(adapter_), 3,
                                 [](Index, Token) { return true; });
  ASSERT_EQ(samples.size(), 3u);
  for (std::size_t at = 0; at < samples.size(); ++at) {
    EXPECT_EQ(samples[at].tokens, generate(decoder_, sampled(adapter_, at)));
  }
}

TEST_F(AdaptedRuns, OfBeamsGiveTheAnswersOfMergedWeights) {
  const auto search = [&](const model::Decoder& decoder,
                          std::shared_ptr<const model::Adapter> adapter) {
    Paged store(pool_);
    const BeamOptions options = {.beams = 3, .max_new_tokens = 12, .adapter = std::move(adapter)};
    return beam_search(decoder, store, workspace_, prompt_, options).front();
  };
  const auto answer = search(decoder_, adapter_);
  EXPECT_EQ(answer.tokens, search(*merged_, {}).tokens);
  EXPECT_NEAR(answer.score, search(*merged_, {}).score, 1e-5);
  EXPECT_NE(answer.tokens, search(decoder_, {}).tokens);
}

TEST_F(AdaptedRuns, OfASessionReuseWhatTheSameAdapterComputed) {
  decoding::Session session(kv::Contiguous<F32>(family_.config.geometry(), 60));
  const auto turn = [&](std::shared_ptr<const model::Adapter> adapter) {
    const auto answer =
        decoding::generate(decoder_, session, workspace_, prompt_, sampled(std::move(adapter)));
    return std::pair(answer.statistics.cached_tokens, answer.tokens);
  };
  const auto plain = generate(decoder_, sampled());
  const auto adapted = generate(decoder_, sampled(adapter_));
  EXPECT_EQ(turn({}), std::pair(Index{0}, plain));
  EXPECT_EQ(turn({}), std::pair(Index{32}, plain));
  EXPECT_EQ(turn(adapter_), std::pair(Index{0}, adapted));
  EXPECT_EQ(turn(adapter_), std::pair(Index{32}, adapted));
  EXPECT_EQ(turn({}), std::pair(Index{0}, plain));
}

TEST_F(AdaptedRuns, OfASessionsForkAndOfAFoundStoreHaveItsAdapter) {
  Paged store(pool_);
  decoding::Session session(std::move(store));
  const auto first = decoding::generate(decoder_, session, workspace_, prompt_, sampled(adapter_));
  decoding::Session fork = session.fork();
  const auto again = decoding::generate(decoder_, fork, workspace_, prompt_, sampled(adapter_));
  EXPECT_EQ(again.statistics.cached_tokens, 32);
  decoding::Session found(fork.store().fork(), {fork.tokens().begin(), fork.tokens().end()},
                          adapter_.get());
  const auto other = decoding::generate(decoder_, found, workspace_, prompt_, sampled(adapter_));
  EXPECT_EQ(other.statistics.cached_tokens, 32);
  EXPECT_EQ(other.tokens, first.tokens);
}

// The same prompt by turns with the adapter and without, to a scheduler with a prefix cache.
TEST_F(AdaptedRuns, OfASchedulerShareNoPagesAcrossAdapters) {
  kv::PrefixTree<F32> tree(pool_);
  decoding::Scheduler scheduler(decoder_, workspace_, pool_, {}, &tree);
  decoding::Service service(scheduler);
  const auto run = [&](std::shared_ptr<const model::Adapter> adapter) {
    const auto outcome =
        service.submit({.prompt = prompt_, .options = sampled(std::move(adapter))}).wait();
    return std::pair(outcome.generation.statistics.cached_tokens, outcome.generation.tokens);
  };
  const auto plain = generate(decoder_, sampled());
  const auto adapted = generate(decoder_, sampled(adapter_));
  EXPECT_EQ(run({}), std::pair(Index{0}, plain));
  EXPECT_EQ(run(adapter_), std::pair(Index{0}, adapted));
  EXPECT_EQ(run({}), std::pair(Index{32}, plain));
  EXPECT_EQ(run(adapter_), std::pair(Index{32}, adapted));
}

TEST_F(AdaptedRuns, OfASchedulerTakeTheNamespaceFromTheAdapter) {
  decoding::Scheduler scheduler(decoder_, workspace_, pool_);
  Request request = {.prompt = prompt_, .options = sampled(adapter_)};
  request.cache_namespace.tenant = 7;
  EXPECT_EQ(namespace_of(request), (kv::CacheNamespace{0, adapter_->id(), 7}));
  request.cache_namespace.adapter = adapter_->id();
  EXPECT_THROW(scheduler.check(request), std::invalid_argument);
}

TEST_F(AdaptedRuns, UnderAnAdapterOfAnotherConfigurationAreRefused) {
  const auto other = std::make_shared<model::Adapter>(trial::gpt2().config,
                                                      std::span<const model::LowRankChange>());
  EXPECT_THROW(generate(decoder_, sampled(other)), std::invalid_argument);
  decoding::Scheduler scheduler(decoder_, workspace_, pool_);
  EXPECT_THROW(scheduler.check({.prompt = prompt_, .options = sampled(other)}),
               std::invalid_argument);
}

}  // namespace
