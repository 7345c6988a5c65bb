// decant/decoding/detail/samples.hpp - several sequences from one prompt: what generate_samples()
// does.
//
// Tested by   tests/decoding/samples_test.cpp
#pragma once

#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/detail/sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

template <class Store>
class Samples {
 public:
  Samples(Steps<Store>& steps, FunctionRef<bool(Index, const NewToken&)> sink)
      : steps_(steps), sink_(sink) {}

  // All samples continue the prompt, whose last logits are in row 0 unless it was interrupted.
  std::vector<Generation> run(const Sequence<Store&>& prompt, Index samples,
                              std::optional<Reason> interrupted) {
    generations_.resize(static_cast<std::size_t>(samples));
    for (Index at = 0; at < samples; ++at) {
      running_.push_back({at, prompt.fork(static_cast<std::uint64_t>(at))});
    }
    if (interrupted) {
      end_samples([&](Sample&, Index) { return interrupted; });
    } else {
      begin();
    }
    while (!running_.empty()) step();
    return std::move(generations_);
  }

 private:
  struct Sample {
    Index number;
    Sequence<Store> sequence;
    bool ended = false;
  };

  // Takes the first token of each sample from the same logits, which are restored each time, since
  // penalties change them.
  void begin() {
    const std::span<float> logits = steps_.workspace.logits(0);
    const std::vector<float> given(logits.begin(), logits.end());
    end_samples([&](Sample& sample, Index) {
      std::ranges::copy(given, logits.begin());
      return accept(sample, 0);
    });
  }

  // Takes one more token of each running sample.
  void step() {
    steps_.batch.clear();
    end_samples([&](Sample& sample, Index) {
      auto why = sample.sequence.text().interruption();
      sample.sequence.plan(1);
      if (!why) why = sample.sequence.reserve();
      return why;
    });
    if (running_.empty()) return;
    for (Sample& sample : running_) sample.sequence.fill(steps_.batch);
    steps_.run();
    end_samples([&](Sample& sample, Index row) { return accept(sample, row); });
  }

  std::optional<Reason> accept(Sample& sample, Index row) {
    return sample.sequence.accept(
        steps_.workspace, row, [&](const NewToken& token) { return sink_(sample.number, token); });
  }

  // Ends the samples for which why(sample, row) gives a reason; `row` counts the running samples.
  // Each gives its pages back at once, so that the next ones find them free.
  template <class F>
  void end_samples(F&& why) {
    Index row = 0;
    for (Sample& sample : running_) {
      const std::optional<Reason> why_ended = why(sample, row++);
      if (!why_ended) continue;
      const Reason reason = sample.sequence.end(
          *why_ended, [&](const NewToken& token) { return sink_(sample.number, token); });
      generations_[static_cast<std::size_t>(sample.number)] = sample.sequence.finish(reason);
      [[maybe_unused]] const Store released = std::move(sample.sequence.store());
      sample.ended = true;
    }
    std::erase_if(running_, [](const Sample& sample) { return sample.ended; });
  }

  Steps<Store>& steps_;
  FunctionRef<bool(Index, const NewToken&)> sink_;
  std::vector<Sample> running_;
  std::vector<Generation> generations_;
};

template <codec::Codec K, codec::Codec V>
std::vector<Generation> PagedRuns<kv::Paged<K, V>>::generate_samples(
    const model::Decoder& decoder, Store& store, model::Workspace& workspace,
    std::span<const Token> prompt, const GenerateOptions& options, Index samples,
    FunctionRef<bool(Index, const NewToken&)> sink) {
  constexpr const char* kWho = "decoding::generate_samples";
  expects(samples >= 1, kWho, ": ", samples, " samples");
  check_cached(options, kWho);
  Steps<Store> steps{decoder, workspace};
  check_run(steps, store, prompt, options, kWho);
  check_sequences(workspace, samples, "samples", kWho);
  Sequence<Store&> sequence(Text(prompt, options, decoder.config().vocabulary), store,
                            room(decoder));
  sequence.reuse_store(kWho);
  const std::optional<Reason> interrupted = sequence.feed(steps);
  sequence.text().statistics().prefill_seconds = sequence.text().seconds();
  return Samples<Store>(steps, sink).run(sequence, samples, interrupted);
}

}  // namespace decant::inline DECANT_ABI::decoding::detail
