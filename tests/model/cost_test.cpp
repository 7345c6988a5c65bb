// tests/model/cost_test.cpp - predicted costs against those that steps count, and known models.
#include "law/models.hpp"

#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/cost.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/profile.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using model::Cost;
using model::Operation;
using Cached = kv::Contiguous<codec::F32>;

Cost cost_of(const model::Decoder& decoder) {
  return {decoder.config(), static_cast<double>(model::matrix_bytes(decoder.weights())),
          static_cast<double>(decoder.config().geometry().payload_bytes<codec::F32>(1))};
}

// Flops of products and attention in a step of `rows` rows behind `cached`.
double counted_flops(const model::Decoder& decoder, Index cached, Index rows) {
  Cached store(decoder.config().geometry(), cached + rows);
  model::Workspace workspace(decoder.config(), {.rows = cached + rows});
  const auto tokens = trial::random_tokens(decoder.config(), cached + rows, 1);
  model::Batch<Cached> batch;
  if (cached > 0) {
    batch.add(store, std::span(tokens).first(static_cast<std::size_t>(cached)));
    decoder.step(batch, workspace);
    batch.clear();
  }
  model::Profile profile;
  workspace.set_profile(&profile);
  batch.add(store, std::span(tokens).last(static_cast<std::size_t>(rows)));
  decoder.step(batch, workspace);
  return profile[Operation::products].work.flops + profile[Operation::attention].work.flops;
}

TEST(Cost, IsWhatStepsCount) {
  for (const trial::Family& family : trial::families()) {
    const model::Decoder decoder = trial::decoder_of(family);
    for (Index cached : {0, 1, 63, 64, 65, 200}) {
      for (Index rows : {1, 2, 70}) {
        EXPECT_DOUBLE_EQ(cost_of(decoder).prefill(rows, cached).flops,
                         counted_flops(decoder, cached, rows))
            << family.name << ", " << rows << " rows behind " << cached;
      }
      EXPECT_DOUBLE_EQ(cost_of(decoder).decode(1, cached).flops, counted_flops(decoder, cached, 1));
    }
  }
}

// Llama 3.1 8B with weights and cache in bf16: 128 KiB a token.
model::Config llama_8b() {
  return {.vocabulary = 128'256,
          .layers = 32,
          .hidden_size = 4'096,
          .heads = 32,
          .kv_heads = 8,
          .key_dim = 128,
          .value_dim = 128,
          .intermediate_size = 14'336,
          .max_positions = 131'072};
}

TEST(Cost, OfAKnownModel) {
  const model::Config config = llama_8b();
  constexpr double kWeights = 8'030'261'248.0 - 2 * 128'256.0 * 4'096 - 65 * 4'096.0;
  const double token_bytes = static_cast<double>(config.geometry().payload_bytes<codec::BF16>(1));
  EXPECT_EQ(token_bytes, 131'072);
  const double weight_bytes = 2 * (kWeights + 128'256.0 * 4'096);
  const Cost cost(config, weight_bytes, token_bytes);
  EXPECT_EQ(cost.layer_weights(), kWeights);
  EXPECT_EQ(cost.output_weights(), 128'256.0 * 4'096);
  EXPECT_NEAR(cost.heavy_context(), 114'510, 50);

  const model::Machine machine = {.bytes_per_second = 1e11, .flops_per_second = 2e13};
  EXPECT_NEAR(least_seconds(cost.decode(1, 0), machine), weight_bytes / 1e11, 1e-5);
  EXPECT_NEAR(least_seconds(cost.prefill(1000), machine), 2 * kWeights * 1000 / 2e13, .02);
  const double bound = cost.compute_bound_sequences(0, machine);
  EXPECT_NEAR(bound, 200, 1);  // a flop a byte of weights, so many bytes short
  const auto many = static_cast<Index>(std::ceil(bound));
  const model::Work just = cost.decode(many, 0);
  EXPECT_GE(just.flops / 2e13, just.bytes / 1e11);
  const model::Work below = cost.decode(many - 2, 0);
  EXPECT_LT(below.flops / 2e13, below.bytes / 1e11);
  EXPECT_EQ(cost.compute_bound_sequences(100'000, machine),
            std::numeric_limits<double>::infinity());
}

TEST(Cost, OfAWindowStopsGrowing) {
  model::Config config = llama_8b();
  config.windows.assign(32, 4'096);
  const Cost cost(config, 1e10, 131'072);
  EXPECT_EQ(cost.decode(3, 5'000).bytes, cost.decode(3, 90'000).bytes);
  EXPECT_EQ(cost.decode(3, 5'000).bytes, 1e10 + 3 * 4'096 * 131'072.0);
  EXPECT_EQ(cost.decode(1, 5'000).flops, cost.decode(1, 4'095).flops);
}

TEST(Cost, RefusesWhatCostsNothing) {
  EXPECT_THROW(Cost(llama_8b(), 0, 1), std::invalid_argument);
  EXPECT_THROW(Cost(llama_8b(), 1, -1), std::invalid_argument);
  EXPECT_THROW(Cost(llama_8b(), std::nan(""), 1), std::invalid_argument);
  EXPECT_THROW(Cost(model::Config{}, 1, 1), std::invalid_argument);
  const Cost cost(llama_8b(), 1, 1);
  EXPECT_THROW(cost.prefill(0), std::invalid_argument);
  EXPECT_THROW(cost.decode(0, 5), std::invalid_argument);
  EXPECT_THROW(cost.decode(1, -5), std::invalid_argument);
}

}  // namespace
