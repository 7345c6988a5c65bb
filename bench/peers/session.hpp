// bench/peers/session.hpp - one sequence of a model: prefill and decode, timed.
//
// A position's token depends on the position alone, so a context that the store holds already, or
// the first part of it, is not computed again: the store is rewound to it. Only the measured tokens
// are timed, not the context before them.
#pragma once

#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include "peers/laps.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

namespace decant::bench {

// Units    capacity and chunk count tokens; a prompt is computed `chunk` tokens at a time
struct SessionOptions {
  Index capacity = 0;
  Index chunk = 512;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual Laps prefill(Index tokens, Index rounds) = 0;
  virtual Laps decode(Index context, Index tokens, Index rounds) = 0;
  virtual Index bytes_per_token() const = 0;
};

template <codec::Codec C>
class SessionOf final : public Session {
 public:
  SessionOf(const model::Decoder& decoder, const SessionOptions& options, Executor& executor)
      : decoder_(decoder),
        chunk_(options.chunk),
        store_(decoder.config().geometry(), options.capacity),
        workspace_(decoder.config(), {.rows = options.chunk}, executor) {
    for (Index at = 0; at < options.capacity; ++at) {
      tokens_.push_back(static_cast<Token>(at * 7919 % decoder.config().vocabulary));
    }
  }

  Laps prefill(Index tokens, Index rounds) override {
    Laps laps;
    for (Index round = 0; round < rounds; ++round) {
      store_.rewind(0);
      laps.run([&] { extend(tokens); });
    }
    check();
    return laps;
  }

  Laps decode(Index context, Index tokens, Index rounds) override {
    Laps laps;
    for (Index round = 0; round < rounds; ++round) {
      store_.rewind(std::min(context, store_.end()));
      extend(context);
      laps.run([&] {
        for (Index i = 0; i < tokens; ++i) feed(1, model::Logits::last);
      });
    }
    check();
    return laps;
  }

  Index bytes_per_token() const override {
    return store_.geometry().payload_bytes(1, Index{sizeof(typename C::Cell)});
  }

 private:
  // Computes what is missing up to `end`; logits of its last token alone.
  void extend(Index end) {
    while (store_.end() < end) {
      const Index rows = std::min(chunk_, end - store_.end());
      const bool last = store_.end() + rows == end;
      feed(rows, last ? model::Logits::last : model::Logits::none);
    }
  }

  void feed(Index rows, model::Logits wanted) {
    batch_.clear();
    batch_.add(store_,
               std::span(tokens_).subspan(static_cast<std::size_t>(store_.end()),
                                          static_cast<std::size_t>(rows)),
               wanted);
    decoder_.step(batch_, workspace_);
  }

  // Refuses NaN: wrong results are not timed.
  void check() {
    float largest = 0.0f;
    for (float logit : workspace_.logits(0)) {
      largest = std::isnan(logit) ? logit : std::max(largest, std::abs(logit));
    }
    expects(largest > 0.0f && std::isfinite(largest), "logits of size ", largest);
  }

  const model::Decoder& decoder_;
  Index chunk_;
  kv::Contiguous<C> store_;
  model::Workspace workspace_;
  model::Batch<kv::Contiguous<C>> batch_;
  std::vector<Token> tokens_;
};

inline std::unique_ptr<Session> make_session(const model::Decoder& decoder, codec::Type cache,
                                             const SessionOptions& options, Executor& executor) {
  return codec::visit(cache, [&]<class C>(C) -> std::unique_ptr<Session> {
    return std::make_unique<SessionOf<C>>(decoder, options, executor);
  });
}

}  // namespace decant::bench
