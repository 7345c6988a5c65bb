// decant/decoding/model_drafter.hpp - a drafter that is a second, smaller model.
//
// It draws with the random numbers of the positions where its drafts would stand, as the first
// model does, so that two similar distributions draw the same token more often than by chance.
//
// Source      Leviathan et al. 2023, arXiv:2211.17192
// Tested by   tests/decoding/speculative_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/detail/steps.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// Decoder, store and workspace are the drafter's own while it is used; the store begins empty. Its
// vocabulary has the tokens of the model that it drafts for, and may be padded to another size. It
// proposes nothing behind a token that it does not know.
//
// Units    most: drafts at once
// Errors   the constructor: std::invalid_argument on invalid options of the sampler, on fewer than
//          one draft, and on a store that holds tokens. propose(): as a step, BadLogits and
//          NoCandidate; without room in the store it proposes fewer
// Cost     a step of one row for each draft; the first one also feeds the tokens since the last
//          call
// Threads  one owner
template <kv::Store S>
class ModelDrafter {
 public:
  ModelDrafter(const model::Decoder& decoder, S& store, model::Workspace& workspace,
               const SamplerOptions& sampler, std::uint64_t sequence = 0, Index most = 4)
      : steps_{decoder, workspace},
        store_(store),
        sampler_(sampler, decoder.config().vocabulary),
        sequence_(sequence),
        most_(most) {
    expects(store.end() == 0, "decoding::ModelDrafter: the store holds ", store.end(), " tokens");
    expects(most >= 1, "decoding::ModelDrafter: ", most, " drafts at once");
  }

  Index vocabulary() const noexcept { return steps_.decoder.config().vocabulary; }

  std::span<const Token> propose(const History& history, Index room) {
    tokens_.assign(history.tokens.begin(), history.tokens.end());
    const auto begin = static_cast<std::ptrdiff_t>(tokens_.size());
    rewind_to_common();
    distributions_.resize(static_cast<std::size_t>(most_));  // their memory is reused
    for (Index draft = 0; draft < std::min(most_, room); ++draft) {
      if (!catch_up()) break;
      const std::span<float> logits = steps_.workspace.logits(0);
      sampler_.penalise(logits, {tokens_, history.prompt});
      const auto candidates = sampler_.candidates(logits, sequence_, std::ssize(tokens_));
      distributions_[static_cast<std::size_t>(draft)].assign(candidates.begin(), candidates.end());
      const double u = uniform(sampler_.options().seed, sequence_, std::ssize(tokens_));
      tokens_.push_back(draw(candidates, u));
    }
    return std::span<const Token>(tokens_).subspan(static_cast<std::size_t>(begin));
  }

  // The distribution from which draft number `at` of the last proposal was drawn.
  std::span<const Candidate> distribution(Index at) const {
    return distributions_[static_cast<std::size_t>(at)];
  }

 private:
  // Drops the fed tokens that the sequence did not take.
  void rewind_to_common() {
    const auto common = std::ranges::mismatch(fed_, tokens_).in1 - fed_.begin();
    const Position end = std::min<Position>(common, std::ssize(tokens_) - 1);
    store_.rewind(end >= store_.earliest_rewind() ? end : 0);
    fed_.resize(static_cast<std::size_t>(store_.end()));
  }

  // Feeds what the store lacks; false if it has no room for that, or does not know a token.
  bool catch_up() {
    const auto unfed = std::span<const Token>(tokens_).subspan(fed_.size());
    if (std::ranges::any_of(unfed, [&](Token token) { return token >= vocabulary(); }))
      return false;
    if (std::ssize(tokens_) > detail::room(steps_.decoder, store_).tokens) return false;
    detail::feed(steps_, store_, tokens_, nullptr, [] { return true; });
    fed_ = tokens_;
    return true;
  }

  detail::Steps<S> steps_;
  S& store_;
  Sampler sampler_;
  std::uint64_t sequence_;
  Index most_;
  std::vector<Token> fed_;     // what the store holds
  std::vector<Token> tokens_;  // the sequence, and drafts behind it
  std::vector<std::vector<Candidate>> distributions_;
};

}  // namespace decant::inline DECANT_ABI::decoding
