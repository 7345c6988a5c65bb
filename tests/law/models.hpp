// tests/law/models.hpp - small random models of several families, and how to run sequences.
#pragma once

#include "law/bits.hpp"
#include "reference/adapter.hpp"
#include "reference/model.hpp"
#include "reference/to_weights.hpp"

#include <decant/codec/plain.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <cstddef>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace decant::trial {

struct Family {
  std::string name;
  model::Config config;
  reference::Parts parts;

  friend std::ostream& operator<<(std::ostream& out, const Family& family) {
    return out << family.name;
  }
};

// Two layers, six heads on three: heads that do not divide evenly between two workers.
inline model::Config small_config() {
  model::Config config;
  config.vocabulary = 41;
  config.layers = 2;
  config.hidden_size = 36;
  config.heads = 6;
  config.kv_heads = 3;
  config.key_dim = 10;
  config.value_dim = 12;
  config.intermediate_size = 50;
  config.max_positions = 4096;
  return config;
}

// Llama: rotation, RMS norms, a gate. The intermediate size is longer than one tile of columns.
inline Family llama() {
  Family family{"Llama", small_config(), {}};
  family.config.intermediate_size = 389;
  return family;
}

// Mistral and Gemma: windows, of one layer around a tile and of another around a segment; one key
// head; keys and values of odd sizes; partial, interleaved rotation.
inline Family windowed() {
  Family family{
      "Windowed", small_config(), {.biases = false, .query_key_norm = false, .tied = true}};
  family.config.layers = 3;
  family.config.heads = 5;
  family.config.kv_heads = 1;
  family.config.key_dim = 17;
  family.config.value_dim = 7;
  family.config.windows = {65, 1025, 0};
  family.config.activation = model::Activation::gelu_tanh;
  family.config.embedding_scale = 6.0f;
  family.config.rope->rotary_dim = 8;
  family.config.rope->pairing = attention::Pairing::interleaved;
  return family;
}

// Qwen: biases, queries and keys normed by head, every query head with a key head of its own.
inline Family normed_heads() {
  Family family{
      "NormedHeads", small_config(), {.biases = true, .query_key_norm = true, .tied = false}};
  family.config.heads = 3;
  family.config.key_dim = 16;
  family.config.value_dim = 16;
  family.config.rope->scaling = attention::Llama3Scaling{.original_positions = 256};
  return family;
}

// GPT-2: learned positions, layer norms, biases, no gate, tied.
inline Family gpt2() {
  Family family{"Gpt2", small_config(), {.biases = true, .query_key_norm = false, .tied = true}};
  family.config.rope.reset();
  family.config.norm = model::Norm::layer;
  family.config.gated = false;
  family.config.activation = model::Activation::gelu;
  return family;
}

// StreamingLLM: windows of two sizes in all layers, and five attention sink tokens.
inline Family streaming() {
  Family family{"Streaming", small_config(), {}};
  family.config.windows = {20, 33};
  family.config.sink_tokens = 5;
  return family;
}

// Heads of several groups of 32 elements, the last of them part-filled.
inline Family wide_heads() {
  Family family{"WideHeads", small_config(), {}};
  family.config.heads = 4;
  family.config.kv_heads = 2;
  family.config.key_dim = 71;
  family.config.value_dim = 45;
  family.config.rope->rotary_dim = 70;
  return family;
}

inline std::vector<Family> families() { return {llama(), windowed(), normed_heads(), gpt2()}; }

inline model::Decoder decoder_of(const Family& family, codec::Type weights = codec::Type::f32) {
  const reference::Model random = reference::random_model(family.config, 5, family.parts);
  return {family.config, reference::to_weights(random, weights)};
}

// Changes every projection of every layer, by different ranks.
inline model::Adapter adapter_of(const model::Config& config, std::uint64_t seed) {
  return reference::to_adapter(
      config, reference::random_changes(config, seed, 1 + static_cast<Index>(seed % 9),
                                        reference::all_projections(config)));
}

inline std::vector<Token> random_tokens(const model::Config& config, Index count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens) {
    token = static_cast<Token>(random() % static_cast<unsigned long>(config.vocabulary));
  }
  return tokens;
}

// Logits, row by row; row i is what follows token i.
using Rows = std::vector<std::vector<float>>;

inline testing::AssertionResult same_rows(const Rows& expected, const Rows& actual) {
  if (expected.size() != actual.size()) {
    return testing::AssertionFailure() << expected.size() << " rows, then " << actual.size();
  }
  for (std::size_t row = 0; row < expected.size(); ++row) {
    const testing::AssertionResult same = same_bits(expected[row], actual[row]);
    if (!same) return testing::AssertionFailure() << "row " << row << ": " << same.message();
  }
  return testing::AssertionSuccess();
}

// A store all of whose slots held rows of NaN before.
template <codec::Codec K, codec::Codec V = K>
kv::Contiguous<K, V> poisoned_store(const model::Config& config, Index capacity) {
  kv::Contiguous<K, V> store(config.geometry(), capacity);
  const std::vector<float> key(static_cast<std::size_t>(config.key_dim), kNaN);
  const std::vector<float> value(static_cast<std::size_t>(config.value_dim), kNaN);
  store.reserve(capacity);
  for (Index layer = 0; layer < config.layers; ++layer) {
    for (Index head = 0; head < config.kv_heads; ++head) {
      for (Position at = 0; at < capacity; ++at) store.put(layer, head, at, key, value);
    }
  }
  store.publish(capacity);
  store.rewind(0);
  return store;
}

// One sequence with a store and a workspace of its own.
template <codec::Codec K, codec::Codec V = K>
class Runner {
 public:
  using Store = kv::Contiguous<K, V>;

  Runner(const model::Decoder& decoder, Index capacity, Executor& executor = serial_executor(),
         const model::Adapter* adapter = nullptr)
      : decoder_(decoder),
        adapter_(adapter),
        store_(poisoned_store<K, V>(decoder.config(), capacity)),
        workspace_(decoder.config(), {.rows = capacity, .logit_rows = capacity, .sequences = 1},
                   executor) {}

  Store& store() { return store_; }

  // Feeds the tokens in one step and gives the logits asked for.
  Rows feed(std::span<const Token> tokens, model::Logits wanted = model::Logits::all) {
    batch_.clear();
    batch_.add(store_, tokens, wanted, adapter_);
    decoder_.step(batch_, workspace_);
    Rows rows;
    for (Index i = 0; i < batch_.logit_rows(); ++i) {
      const std::span<const float> logits = workspace_.logits(i);
      rows.emplace_back(logits.begin(), logits.end());
    }
    return rows;
  }

  // Feeds the tokens in chunks of size(tokens left) and gives all logits.
  template <class Size>
  Rows feed_in_chunks(std::span<const Token> tokens, Size&& size) {
    Rows all;
    while (!tokens.empty()) {
      const auto count = static_cast<std::size_t>(size(std::ssize(tokens)));
      Rows rows = feed(tokens.first(count));
      all.insert(all.end(), rows.begin(), rows.end());
      tokens = tokens.subspan(count);
    }
    return all;
  }
  Rows feed_one_by_one(std::span<const Token> tokens) {
    return feed_in_chunks(tokens, [](Index) { return 1; });
  }

 private:
  const model::Decoder& decoder_;
  const model::Adapter* adapter_;
  Store store_;
  model::Workspace workspace_;
  model::Batch<Store> batch_;
};

// The logits of every token, decoded one at a time, alone, on one thread: the reference of the
// tests.
template <codec::Codec K, codec::Codec V = K>
Rows decoded(const model::Decoder& decoder, std::span<const Token> tokens,
             const model::Adapter* adapter = nullptr) {
  return Runner<K, V>(decoder, std::ssize(tokens), serial_executor(), adapter)
      .feed_one_by_one(tokens);
}

}  // namespace decant::trial
