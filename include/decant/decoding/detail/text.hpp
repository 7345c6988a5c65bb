// decant/decoding/detail/text.hpp - a text that grows by one token for each row of logits, until it
// ends.
//
// Which token follows, and whether it is the last, depends on the sequence alone, not on how its
// rows of logits were computed.
//
// Tested by   tests/decoding/{generate,control,speculative,rejection,samples,scheduler}_test.cpp,
//             tests/decoding/{stop_strings,logits_processors}_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/random.hpp>
#include <decant/decoding/detail/answer_text.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/rejection.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

using Sink = FunctionRef<bool(NewToken&)>;  // may move from it
// The distribution that draft number `at` was drawn from; empty if the draft had probability 1.
using DraftDistribution = FunctionRef<std::span<const Candidate>(Index at)>;

// Precondition: prompt and options passed check(). Times count from `since`.
//
// Errors   take(): std::bad_alloc, BadLogits, NoCandidate, std::invalid_argument if a mask does not
//          fit the vocabulary, and whatever functions of the options and the sink throw; the tokens
//          taken before stay
// Cost     memory for the tokens and, from the first take() on, for a Sampler; a token costs what
//          Sampler says, and O(vocabulary) more if log-probabilities are asked for
// Threads  one owner
class Text {
 public:
  Text(std::span<const Token> prompt, GenerateOptions options, Index vocabulary,
       const Stopwatch& since = {})
      : watch_(since),
        options_(std::move(options)),
        vocabulary_(vocabulary),
        given_(options_.prompt_tokens.value_or(std::ssize(prompt))),
        tokens_(prompt.begin(), prompt.end()),
        answer_(std::move(options_.text), options_.stop,
                options_.stop.min_new_tokens - (std::ssize(prompt) - given_)) {
    result_.statistics.prompt_tokens = std::ssize(prompt);
  }

  // A copy with the random numbers of the `n`-th sequence after this one.
  Text of_sequence(std::uint64_t n) const {
    Text other = *this;
    other.options_.sequence += n;
    return other;
  }

  const GenerateOptions& options() const noexcept { return options_; }
  // Prompt and new tokens.
  std::span<const Token> tokens() const noexcept { return tokens_; }
  std::span<const Token> new_tokens() const noexcept {
    return tokens().last(static_cast<std::size_t>(generated()));
  }
  History history() const noexcept { return {tokens_, given_}; }
  Index generated() const noexcept {
    return std::ssize(tokens_) - result_.statistics.prompt_tokens;
  }
  // How many more tokens may follow.
  Index left() const noexcept { return options_.max_new_tokens - generated(); }
  // How many of the new tokens the sink has not been given yet.
  Index held_back() const noexcept { return generated() - shown_; }
  // Whether a token or a string ended the text; every token before that one has then been fed.
  bool ended() const noexcept { return result_.ended_by || answer_.stopped(); }
  Statistics& statistics() noexcept { return result_.statistics; }
  double seconds() const { return watch_.seconds(); }

  // Cancellation or time, if one of them ends the text before its next step.
  std::optional<Reason> interruption() const {
    if (options_.cancel.stop_requested()) return Reason::cancelled;
    if (watch_.seconds() > options_.max_seconds) return Reason::time;
    return std::nullopt;
  }

  void append(Token token) {
    if (options_.log_probabilities) {
      result_.log_probabilities.push_back(
          log_probabilities(raw_, token, *options_.log_probabilities));
    }
    tokens_.push_back(token);
    answer_.push(token);
    Statistics& statistics = result_.statistics;
    const double now = watch_.seconds();
    if (generated() == 1) statistics.time_to_first_token = now;
    statistics.decode_seconds = now - statistics.time_to_first_token;
  }

  // Takes the tokens of rows of logits: row `first` follows the tokens so far, and the row behind
  // each draft follows that draft, for as long as drafts are accepted. Returns why the text has
  // ended, if it has.
  std::optional<Reason> take(model::Workspace& workspace, Index first,
                             std::span<const Token> drafts, Sink sink,
                             DraftDistribution distribution) {
    for (Index row = 0; left() > 0; ++row) {
      const Token token = sample(workspace, first, row, drafts, distribution);
      if (options_.stop.is_end(token) || options_.stop.is_stop(token)) return end_by(token);
      append(token);
      if (const auto ended = show(sink)) return ended;
      if (row == std::ssize(drafts) || drafts[static_cast<std::size_t>(row)] != token) break;
      result_.statistics.accepted_tokens += 1;
    }
    if (left() == 0) return Reason::length;
    return std::nullopt;
  }

  // Ends the text and gives the sink the tokens that were held back. Returns why the text has
  // ended: for `reason`, unless a stop string is found after all or the sink refuses a token.
  //
  // Errors   whatever the sink and the source of the text throw
  Reason end(Reason reason, Sink sink) {
    if (reason == Reason::sink || reason == Reason::stop_string) return reason;
    answer_.finish();
    const std::optional<Reason> before = show(sink);
    if (before) result_.ended_by.reset();
    return before.value_or(reason);
  }

  // The result of the run, with the tokens that the sink was given.
  Generation finish(Reason reason) noexcept {
    cut(shown_);
    result_.reason = reason;
    result_.statistics.generated_tokens = generated();
    result_.text = answer_.take();
    tokens_.erase(tokens_.begin(), tokens_.begin() + result_.statistics.prompt_tokens);
    result_.tokens = std::move(tokens_);
    return std::move(result_);
  }

 private:
  // Gives the sink the tokens that have become certain. If a stop string or the sink ends the text,
  // drops the tokens after the end and returns the reason.
  std::optional<Reason> show(Sink sink) {
    while (shown_ < static_cast<Index>(answer_.certain())) {
      NewToken next = new_token(shown_);
      shown_ += 1;
      if (sink(next)) continue;
      cut(shown_);
      return Reason::sink;
    }
    if (!answer_.stopped()) return std::nullopt;
    cut(shown_);
    result_.stop_string = answer_.stop_string();
    return Reason::stop_string;
  }

  NewToken new_token(Index at) const {
    const auto index = static_cast<std::size_t>(at);
    NewToken next{.token = new_tokens()[index], .text = answer_.text_of(index)};
    if (options_.log_probabilities) next.log_probabilities = result_.log_probabilities[index];
    return next;
  }

  // Drops the new tokens after the first `count`.
  void cut(Index count) noexcept {
    const auto size = static_cast<std::size_t>(count);
    if (generated() > count) answer_.cut(size);
    tokens_.resize(tokens_.size() - static_cast<std::size_t>(generated() - count));
    if (result_.log_probabilities.size() > size) result_.log_probabilities.resize(size);
  }

  // The tokens that masks and min_new_tokens count as generated.
  std::span<const Token> answer() const {
    return tokens().subspan(static_cast<std::size_t>(given_));
  }

  Token sample(model::Workspace& workspace, Index first, Index row, std::span<const Token> drafts,
               DraftDistribution distribution) {
    const std::span<float> logits = workspace.logits(first + row);
    if (options_.log_probabilities) raw_.assign(logits.begin(), logits.end());
    for (const auto& process : options_.logits_processors) process(history(), logits);
    ban(logits, options_.banned_tokens);
    options_.stop.ban_early(logits, std::ssize(answer()));
    if (options_.allowed) allow_only(logits, options_.allowed(answer()));
    Token token = 0;
    model::profiled(
        workspace.profile(), model::Operation::sampling,
        [&] { return model::Work{.bytes = static_cast<double>(logits.size_bytes())}; },
        [&] {
          if (!sampler_) sampler_.emplace(options_.sampler, vocabulary_);
          sampler_->penalise(logits, history());
          token = choose(logits, row, drafts, distribution);
        });
    return token;
  }

  Token choose(std::span<const float> logits, Index row, std::span<const Token> drafts,
               DraftDistribution distribution) {
    const Position position = std::ssize(tokens_);
    if (options_.verification == Verification::agreement || row >= std::ssize(drafts)) {
      return sampler_->sample(logits, options_.sequence, position);
    }
    const double u = uniform(options_.sampler.seed, options_.sequence, position, 1);
    const Token token = verify(sampler_->candidates(logits, options_.sequence, position),
                               distribution(row), drafts[static_cast<std::size_t>(row)], u);
    sampler_->took(token);
    return token;
  }

  Reason end_by(Token token) {
    result_.ended_by = token;
    return options_.stop.is_end(token) ? Reason::end_token : Reason::stop_token;
  }

  Stopwatch watch_;
  GenerateOptions options_;
  Index vocabulary_;
  std::optional<Sampler> sampler_;  // made by the first take(): it has scratch memory
  Index given_;                     // tokens that count as the prompt
  std::vector<Token> tokens_;
  AnswerText answer_;
  Index shown_ = 0;         // new tokens that the sink was given
  std::vector<float> raw_;  // a row of logits as the model computed it
  Generation result_;
};

}  // namespace decant::inline DECANT_ABI::decoding::detail
