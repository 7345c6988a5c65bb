// decant/decoding/samples.hpp - several answers to one prompt, which is computed once.
//
// Every answer grows on a fork of the store that holds the prompt, and all of them in one step, so
// that weights are read once for a token of each. Answer i has the random numbers of sequence
// `options.sequence + i`: it is the text that generate() gives under that name, bit for bit.
//
// Depends on  decoding/{continuation,drafter,feeding,generation}.hpp, kv/paged.hpp,
//             model/{batch,decoder,workspace}.hpp
// Tested by   tests/decoding/samples_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/continuation.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

template <class Store, class Sink>
class Samples {
 public:
  Samples(const model::Decoder& decoder, model::Workspace& workspace, std::span<const Token> prompt,
          const GenerateOptions& options, Index samples, Sink& sink)
      : decoder_(decoder), workspace_(workspace), sink_(sink) {
    GenerateOptions own = options;
    samples_.reserve(static_cast<std::size_t>(samples));
    for (Index sample = 0; sample < samples; ++sample, ++own.sequence) {
      samples_.push_back({.text = {prompt, own, decoder.config(), "decoding::generate_samples"}});
    }
  }

  std::vector<Generation> run(Store& store, Index cached, Index positions) {
    store.rewind(cached);
    std::optional<Reason> why;
    feed(decoder_, store, workspace_, batch_, samples_.front().text.sequence(),
         [&] { return !(why = samples_.front().text.interruption()); });
    for (Sample& sample : samples_) {
      sample.text.statistics().cached_tokens = cached;
      sample.text.statistics().prefill_seconds = sample.text.seconds();
      sample.reason = why;
    }
    if (!why) begin(store);
    while (step(positions)) {
    }
    std::vector<Generation> generations;
    for (Sample& sample : samples_) generations.push_back(sample.text.finish(*sample.reason));
    return generations;
  }

 private:
  struct Sample {
    Continuation text;
    std::optional<Store> store = {};
    std::optional<Reason> reason = {};  // why it has ended
  };

  // The first token of each, all from the logits of the prompt's last one.
  void begin(const Store& store) {
    const std::span<float> logits = workspace_.logits(0);
    const std::vector<float> given(logits.begin(), logits.end());
    for (Index sample = 0; sample < std::ssize(samples_); ++sample) {
      std::ranges::copy(given, logits.begin());
      samples_[static_cast<std::size_t>(sample)].store = store.fork();
      take(sample, 0);
    }
  }

  void take(Index at, Index row) {
    Sample& sample = samples_[static_cast<std::size_t>(at)];
    sample.reason = sample.text.take(workspace_, row, {}, NoDrafts{},
                                     [&](Token token) { return sink_(at, token); });
    if (sample.reason) end(sample, *sample.reason);
  }

  static void end(Sample& sample, Reason reason) {
    sample.reason = reason;
    sample.text.statistics().cache_bytes = sample.store->bytes();
    sample.store.reset();
  }

  // One more token of each that goes on; false when none does.
  bool step(Index positions) {
    batch_.clear();
    std::vector<Index> rows;
    for (Sample& sample : samples_) {
      if (sample.reason) continue;
      const std::span<const Token> sequence = sample.text.sequence();
      auto why = sample.text.interruption();
      if (!why && std::ssize(sequence) > positions) why = Reason::positions_full;
      if (!why) why = reserve(*sample.store);
      if (why) {
        end(sample, *why);
        continue;
      }
      batch_.add(*sample.store, sequence.last(1));
      rows.push_back(&sample - samples_.data());
    }
    if (rows.empty()) return false;
    decoder_.step(batch_, workspace_);
    for (Index row = 0; row < std::ssize(rows); ++row)
      take(rows[static_cast<std::size_t>(row)], row);
    return true;
  }

  // Room for a token, or why there is none.
  static std::optional<Reason> reserve(Store& store) {
    try {
      store.reserve(1);
      return std::nullopt;
    } catch (const CacheFull&) {
      return Reason::cache_full;
    }
  }

  const model::Decoder& decoder_;
  model::Workspace& workspace_;
  Sink& sink_;
  std::vector<Sample> samples_;
  model::Batch<Store> batch_;
};

}  // namespace detail

// Continues `prompt` in `samples` ways, giving each new token to `sink` with the number of its
// answer; a sink that returns false ends that answer.
//
// What the store holds is taken as the beginning of the prompt, as generate() does, and at the end
// it holds the prompt; answers are forks of it and take pages of its pool. Where that has none
// left, the answer that wants one ends with cache_full.
//
// Errors   before anything changed: std::invalid_argument (as generate(); no samples; to recompute;
//          a workspace with fewer rows, rows of logits or sequences than samples), CacheFull where
//          the prompt is longer than the store. Later: as generate(); the store then holds a
//          beginning of the prompt
// Cost     a step of `samples` rows for each token; copies one page of each answer
// Threads  store, pool, workspace and sink belong to the run until it returns
template <codec::Codec K, codec::Codec V, std::predicate<Index, Token> Sink>
std::vector<Generation> generate_samples(const model::Decoder& decoder, kv::Paged<K, V>& store,
                                         model::Workspace& workspace, std::span<const Token> prompt,
                                         const GenerateOptions& options, Index samples,
                                         Sink&& sink) {
  constexpr const char* kWho = "decoding::generate_samples";
  expects(samples >= 1, kWho, ": ", samples, " samples");
  expects(!options.recompute, kWho, ": recompute is for generate() alone");
  detail::check_run(decoder, store, workspace, prompt, kWho);
  detail::check_width(workspace, samples, "samples", kWho);
  detail::Samples<kv::Paged<K, V>, std::remove_reference_t<Sink>> run(decoder, workspace, prompt,
                                                                      options, samples, sink);
  const Index cached = std::min<Index>(store.end(), std::ssize(prompt) - 1);
  return run.run(store, cached, decoder.positions());
}

}  // namespace decant::inline v0::decoding
