// tests/law/machines_test.cpp - the same bits on every machine that fuses multiply-adds.
//
// A model without rotary positions, whose every operation is the library's own, has logits of known
// bits: builds for AVX2 and for AVX-512, by GCC and by Clang, gave the sums below. (Cosines come
// from the system's mathematics library, which may differ in a last bit.)
#include <decant/model/decoder.hpp>

#include "law/bits.hpp"

#include <decant/kv/contiguous.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace decant;
using codec::Type;

constexpr Index kTokens = 1100;  // longer than a segment

// The same values on every machine, in [-1/8, 1/8): exact, so that no compiler rounds differently.
class Generator {
 public:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 40) - (1 << 23)) * 0x1p-26f;
  }
  std::vector<float> next(Index count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = next();
    return values;
  }
  kernels::Matrix matrix(Index rows, Index columns, Type type) {
    const std::vector<float> values = next(rows * columns);
    const auto view = kernels::row_major(values.data(), Type::f32, rows, columns);
    return kernels::Matrix({&view, 1}, type);
  }

 private:
  std::uint64_t state_ = 1;
};

model::Decoder decoder_of(Type type) {
  model::Config config;
  config.vocabulary = 100;
  config.hidden_size = 96;
  config.layers = 2;
  config.heads = 6;
  config.kv_heads = 2;
  config.key_dim = config.value_dim = 16;
  config.intermediate_size = 160;
  config.max_positions = kTokens;
  config.rope.reset();
  Generator generator;
  model::Weights weights;
  weights.embedding = generator.matrix(config.vocabulary, config.hidden_size, type);
  weights.positions = generator.next(kTokens * config.hidden_size);
  const std::vector<float> ones(96, 1.0f);
  for (Index at = 0; at < config.layers; ++at) {
    model::LayerWeights& layer = weights.layers.emplace_back();
    layer.attention_norm.weight = layer.feed_forward_norm.weight = ones;
    layer.qkv.matrix = generator.matrix(config.qkv_size(), config.hidden_size, type);
    layer.attention_output.matrix = generator.matrix(config.hidden_size, config.hidden_size, type);
    layer.up.matrix = generator.matrix(config.up_size(), config.hidden_size, type);
    layer.down.matrix = generator.matrix(config.hidden_size, config.intermediate_size, type);
  }
  weights.output_norm.weight = ones;
  return model::Decoder(config, std::move(weights));
}

// A sum over the bits of all logits (FNV-1a, by words).
template <codec::Codec C>
std::uint64_t bits_of_logits(Type type) {
  const model::Decoder decoder = decoder_of(type);
  kv::Contiguous<C> store(decoder.config().geometry(), kTokens);
  model::Workspace workspace(decoder.config(), {.rows = kTokens, .logit_rows = kTokens});
  std::vector<Token> tokens;
  for (Token at = 0; at < kTokens; ++at) tokens.push_back((at * 37 + 11) % 100);
  model::Batch<kv::Contiguous<C>> batch;
  batch.add(store, tokens, model::Logits::all);
  decoder.step(batch, workspace);
  std::uint64_t sum = 14695981039346656037u;
  for (Index row = 0; row < kTokens; ++row) {
    EXPECT_TRUE(trial::all_finite(workspace.logits(row)));
    for (float logit : workspace.logits(row)) {
      sum = (sum ^ std::bit_cast<std::uint32_t>(logit)) * 1099511628211u;
    }
  }
  return sum;
}

TEST(Machines, AgreeOnEveryBit) {
#if !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)
  GTEST_SKIP() << "this build does not fuse multiply-adds";
#endif
  EXPECT_EQ(bits_of_logits<codec::F32>(Type::f32), 8708068807554677044u);
  EXPECT_EQ(bits_of_logits<codec::BF16>(Type::bf16), 9322326536712053701u);
  EXPECT_EQ(bits_of_logits<codec::F16>(Type::f16), 10466317886673425761u);
  EXPECT_EQ(bits_of_logits<codec::F32>(Type::q8_0), 14781786749387547758u);
  EXPECT_EQ(bits_of_logits<codec::F32>(Type::q4_0), 9815196828834517404u);
}

}  // namespace
