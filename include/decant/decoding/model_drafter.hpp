// decant/decoding/model_drafter.hpp - a second, smaller model that guesses what the first will say.
//
// It draws with the random numbers of the places where its guesses would stand, as the first model
// does, so that two similar distributions draw the same token more often than chance has it.
//
// Depends on  decoding/{drafter,feeding,sampler}.hpp, model/{batch,decoder,workspace}.hpp
// Source      Leviathan et al. 2023, arXiv:2211.17192
// Tested by   tests/decoding/speculative_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/history.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::inline v0::decoding {

// Decoder, store and workspace are the drafter's own while it is used; the store begins empty.
//
// Units    most: guesses at once
// Errors   the constructor: std::invalid_argument on options of the sampler, guesses below one and
//          on a store that holds tokens. propose(): as a step, and BadLogits and NoCandidate.
//          Without room in the store it guesses less
// Cost     a step of one row for each guess, and one for what came since
// Threads  one owner
template <kv::Store S>
class ModelDrafter {
 public:
  ModelDrafter(const model::Decoder& decoder, S& store, model::Workspace& workspace,
               const SamplerOptions& sampler, std::uint64_t sequence = 0, Index most = 4)
      : decoder_(decoder),
        store_(store),
        workspace_(workspace),
        sampler_(sampler, decoder.config().vocabulary),
        sequence_(sequence),
        most_(most) {
    expects(store.end() == 0, "decoding::ModelDrafter: the store holds ", store.end(), " tokens");
    expects(most >= 1, "decoding::ModelDrafter: ", most, " guesses at once");
  }

  Index vocabulary() const noexcept { return decoder_.config().vocabulary; }

  std::span<const Token> propose(const History& history, Index room) {
    tokens_.assign(history.tokens.begin(), history.tokens.end());
    const auto begin = static_cast<std::ptrdiff_t>(tokens_.size());
    rewind_to_common();
    distributions_.resize(static_cast<std::size_t>(most_));  // which keep their memory
    for (Index guess = 0; guess < std::min(most_, room); ++guess) {
      if (!catch_up()) break;
      const std::span<float> logits = workspace_.logits(0);
      sampler_.penalise(logits, {tokens_, history.prompt});
      const auto candidates = sampler_.candidates(logits);
      distributions_[static_cast<std::size_t>(guess)].assign(candidates.begin(), candidates.end());
      const double u = uniform(sampler_.options().seed, sequence_, std::ssize(tokens_));
      tokens_.push_back(draw(candidates, u));
    }
    return std::span<const Token>(tokens_).subspan(static_cast<std::size_t>(begin));
  }

  // What guess number `at` of the last proposal was drawn from.
  std::span<const Candidate> distribution(Index at) const {
    return distributions_[static_cast<std::size_t>(at)];
  }

 private:
  // Forgets what was fed and did not come.
  void rewind_to_common() {
    const auto common = std::ranges::mismatch(fed_, tokens_).in1 - fed_.begin();
    const Position end = std::min<Position>(common, std::ssize(tokens_) - 1);
    store_.rewind(end >= store_.earliest_rewind() ? end : 0);
    fed_.resize(static_cast<std::size_t>(store_.end()));
  }

  // Feeds what the store lacks; false where it has no room for it.
  bool catch_up() {
    if (std::ssize(tokens_) > detail::room(decoder_, store_).tokens) return false;
    detail::feed(decoder_, store_, workspace_, batch_, tokens_, [] { return true; });
    fed_ = tokens_;
    return true;
  }

  const model::Decoder& decoder_;
  S& store_;
  model::Workspace& workspace_;
  Sampler sampler_;
  std::uint64_t sequence_;
  Index most_;
  std::vector<Token> fed_;     // what the store holds
  std::vector<Token> tokens_;  // the sequence, and guesses behind it
  std::vector<std::vector<Candidate>> distributions_;
  model::Batch<S> batch_;
};

}  // namespace decant::inline v0::decoding
