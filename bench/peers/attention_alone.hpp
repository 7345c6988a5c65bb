// bench/peers/attention_alone.hpp - rows of queries over keys and values that come from memory.
//
// The store has so many layers that the processor's caches cannot hold them; one round attends
// once in each, and counts as that many calls.
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/codec/plain.hpp>
#include <decant/kv/contiguous.hpp>

#include "peers/laps.hpp"
#include "peers/random_model.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

namespace decant::bench {

struct AttentionCase {
  Index heads, kv_heads, head_dim;
  Index keys, rows;  // the rows are the newest of the keys
  codec::Type cache;
};

class AttentionAlone {
 public:
  virtual ~AttentionAlone() = default;
  virtual Index calls() const = 0;  // of one round
  virtual Laps run(Index rounds) = 0;
};

template <codec::Codec C>
class AttentionOf final : public AttentionAlone {
 public:
  AttentionOf(const AttentionCase& of, Executor& executor)
      : of_(of),
        executor_(executor),
        store_(geometry(of), of.keys),
        scratch_(store_.geometry(), of.heads, executor.threads(), 1, of.keys),
        out_(static_cast<std::size_t>(of.rows * of.heads * of.head_dim)) {
    for (Index k = 0; k < std::ssize(out_); ++k) queries_.push_back(50 * normal(k));
    fill();
  }

  Index calls() const override { return store_.geometry().layers; }

  Laps run(Index rounds) override {
    Laps laps;
    for (Index round = 0; round < rounds; ++round) {
      laps.run([&] {
        for (Index layer = 0; layer < calls(); ++layer) attend(layer);
      });
    }
    return laps;
  }

 private:
  static kv::Geometry geometry(const AttentionCase& of) {
    constexpr Index kMemory = 256 << 20;
    kv::Geometry result = {1, of.kv_heads, of.head_dim, of.head_dim};
    result.layers = std::max<Index>(1, kMemory / result.bytes<C>(of.keys));
    return result;
  }

  void fill() {
    constexpr Index kOffsets = 4099;
    std::vector<float> values;
    for (Index k = 0; k < kOffsets + 2 * of_.head_dim; ++k) values.push_back(50 * normal(k));
    const auto dim = static_cast<std::size_t>(of_.head_dim);
    store_.reserve(of_.keys);
    for (Index layer = 0; layer < calls(); ++layer) {
      for (Index head = 0; head < of_.kv_heads; ++head) {
        for (Index at = 0; at < of_.keys; ++at) {
          const std::span<const float> row = std::span<const float>(values).subspan(
              static_cast<std::size_t>((at * 61 + head) % kOffsets), 2 * dim);
          store_.put(layer, head, at, row.first(dim), row.last(dim));
        }
      }
    }
    store_.publish(of_.keys);
  }

  void attend(Index layer) {
    const Index stride = of_.heads * of_.head_dim;
    const attention::Sequence<kv::Contiguous<C>> sequence = {.store = &store_,
                                                             .first = of_.keys - of_.rows,
                                                             .rows = of_.rows,
                                                             .queries = queries_.data(),
                                                             .out = out_.data()};
    attention::attend(std::span(&sequence, 1),
                      {.layer = layer,
                       .heads = of_.heads,
                       .scale = 1.0f / std::sqrt(static_cast<float>(of_.head_dim)),
                       .query_stride = stride,
                       .out_stride = stride},
                      attention::Causal{}, attention::Plain{}, scratch_, executor_);
  }

  AttentionCase of_;
  Executor& executor_;
  kv::Contiguous<C> store_;
  attention::Scratch scratch_;
  std::vector<float> queries_, out_;
};

inline std::unique_ptr<AttentionAlone> make_attention(const AttentionCase& of, Executor& executor) {
  return codec::visit(of.cache, [&]<class C>(C) -> std::unique_ptr<AttentionAlone> {
    return std::make_unique<AttentionOf<C>>(of, executor);
  });
}

}  // namespace decant::bench
