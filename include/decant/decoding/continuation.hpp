// decant/decoding/continuation.hpp - one text that grows: from rows of logits to tokens, until it
// ends.
//
// Whoever runs the steps, for one sequence or for many in company, hands over the rows of logits;
// which token follows, and whether it is the last, depends on the sequence alone.
//
// Depends on  decoding/{drafter,feeding,generation,log_probabilities,penalties}.hpp,
//             decoding/{rejection,sampler}.hpp, model/{config,profile,workspace}.hpp
// Tested by   tests/decoding/{generate,control,speculative,rejection,samples,scheduler}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/candidates.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/history.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/decoding/penalties.hpp>
#include <decant/decoding/rejection.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/model/config.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/workspace.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

// Refuses what is no prompt for a vocabulary, and options that mean nothing, in the name of `who`.
//
// Errors   std::invalid_argument
inline void check(const GenerateOptions& options, std::span<const Token> prompt,
                  const model::Config& config, std::string_view who) {
  const auto count = [&](Index number, const char* name) {
    expects(number >= 0, who, ": ", name, " is ", number);
  };
  detail::check_prompt(prompt, config, who);
  count(options.max_new_tokens, "max_new_tokens");
  count(options.stop.min_new_tokens, "min_new_tokens");
  count(options.log_probabilities.value_or(0), "log_probabilities");
  count(options.prompt_tokens.value_or(0), "prompt_tokens");
  expects(options.prompt_tokens.value_or(0) <= std::ssize(prompt), who, ": prompt_tokens is ",
          options.prompt_tokens.value_or(0), ", of a prompt of ", prompt.size());
  expects(options.max_seconds >= 0, who, ": max_seconds is ", options.max_seconds);
  detail::check_tokens(options.stop.stop_tokens, config, who, "stop tokens");
  check(options.sampler);
  check(options.sampler.penalties, config.vocabulary);
}

// The clock of its statistics runs from the constructor on.
//
// Errors   the constructor: std::invalid_argument, as check() of prompt and options and as
//          Sampler. take(): std::bad_alloc, BadLogits, NoCandidate, std::invalid_argument where a
//          mask does not fit the vocabulary, and whatever mask and sink throw; the tokens before it
//          stand
// Cost     memory for the tokens, and from the first take() on that of a Sampler; of a token as
//          Sampler, and O(vocabulary) more where log-probabilities are wanted
// Threads  one owner
class Continuation {
 public:
  Continuation(std::span<const Token> prompt, GenerateOptions options, const model::Config& config,
               std::string_view who)
      : options_((check(options, prompt, config, who), std::move(options))),
        vocabulary_(config.vocabulary),
        given_(options_.prompt_tokens.value_or(std::ssize(prompt))),
        sequence_(prompt.begin(), prompt.end()) {
    result_.statistics.prompt_tokens = std::ssize(prompt);
  }

  const GenerateOptions& options() const noexcept { return options_; }
  // Prompt and new tokens.
  std::span<const Token> sequence() const noexcept { return sequence_; }
  History history() const noexcept { return {sequence_, given_}; }
  Index generated() const noexcept {
    return std::ssize(sequence_) - result_.statistics.prompt_tokens;
  }
  // How many more tokens may come.
  Index left() const noexcept { return options_.max_new_tokens - generated(); }
  Statistics& statistics() noexcept { return result_.statistics; }
  const Statistics& statistics() const noexcept { return result_.statistics; }
  double seconds() const { return watch_.seconds(); }

  // Why it should end before its next step, if it should.
  std::optional<Reason> interruption() const {
    if (options_.cancel.stop_requested()) return Reason::cancelled;
    if (watch_.seconds() > options_.max_seconds) return Reason::time;
    return std::nullopt;
  }

  // Takes the tokens of rows of logits: row `first` follows the sequence, and the row behind each
  // draft follows that, for as long as the drafts agree. Gives why the text has ended, if it has.
  template <class D, std::predicate<Token> Sink>
  std::optional<Reason> take(model::Workspace& workspace, Index first,
                             std::span<const Token> drafts, const D& drafter, Sink&& sink) {
    for (Index row = 0; left() > 0; ++row) {
      const Token token = sample(workspace, first, row, drafts, drafter);
      if (options_.stop.is_end(token) || options_.stop.is_stop(token)) return end_by(token);
      append(token);
      if (!sink(token)) return Reason::sink;
      if (row == std::ssize(drafts) || drafts[static_cast<std::size_t>(row)] != token) break;
      result_.statistics.accepted_tokens += 1;
    }
    if (left() == 0) return Reason::length;
    return std::nullopt;
  }

  // Whether an end or stop token ended it, which every token before has been fed to give.
  bool ended() const noexcept { return result_.ended_by.has_value(); }

  // What came of it.
  Generation finish(Reason reason) noexcept {
    result_.statistics.generated_tokens = generated();
    result_.reason = reason;
    if (std::ssize(result_.log_probabilities) > generated()) {  // of a token that failed to come
      result_.log_probabilities.pop_back();
    }
    sequence_.erase(sequence_.begin(), sequence_.begin() + result_.statistics.prompt_tokens);
    result_.tokens = std::move(sequence_);
    return std::move(result_);
  }

 private:
  // What was not given: the text so far.
  std::span<const Token> text() const {
    return std::span(sequence_).subspan(static_cast<std::size_t>(given_));
  }

  template <class D>
  Token sample(model::Workspace& workspace, Index first, Index row, std::span<const Token> drafts,
               const D& drafter) {
    const std::span<float> logits = workspace.logits(first + row);
    if (options_.log_probabilities) raw_.assign(logits.begin(), logits.end());
    options_.stop.ban_early(logits, std::ssize(text()));
    if (options_.allowed) allow_only(logits, options_.allowed(text()));
    Token token = 0;
    model::profiled(
        workspace.profile(), model::Operation::sampling,
        [&] { return model::Work{.bytes = static_cast<double>(logits.size_bytes())}; },
        [&] {
          if (!sampler_) sampler_.emplace(options_.sampler, vocabulary_);
          sampler_->penalise(logits, history());
          token = choose(logits, row, drafts, drafter);
        });
    return token;
  }

  template <class D>
  Token choose(std::span<const float> logits, Index row, std::span<const Token> drafts,
               const D& drafter) {
    const Position position = std::ssize(sequence_);
    if (options_.verification == Verification::agreement || row >= std::ssize(drafts)) {
      return sampler_->sample(logits, options_.sequence, position);
    }
    std::span<const Candidate> draft;
    if constexpr (DrafterWithDistribution<D>) draft = drafter.distribution(row);
    const double u = uniform(options_.sampler.seed, options_.sequence, position, 1);
    return verify(sampler_->candidates(logits), draft, drafts[static_cast<std::size_t>(row)], u);
  }

  Reason end_by(Token token) {
    result_.ended_by = token;
    return options_.stop.is_end(token) ? Reason::end_token : Reason::stop_token;
  }

  void append(Token token) {
    if (options_.log_probabilities) {
      result_.log_probabilities.push_back(
          log_probabilities(raw_, token, *options_.log_probabilities));
    }
    sequence_.push_back(token);
    Statistics& statistics = result_.statistics;
    const double now = watch_.seconds();
    if (generated() == 1) statistics.time_to_first_token = now;
    statistics.decode_seconds = now - statistics.time_to_first_token;
  }

  Stopwatch watch_;
  GenerateOptions options_;
  Index vocabulary_;
  std::optional<Sampler> sampler_;  // which has scratch memory: not for those who wait in line
  Index given_;                     // tokens of the sequence that are no text
  std::vector<Token> sequence_;
  std::vector<float> raw_;  // a row as the model gave it
  Generation result_;
};

}  // namespace decant::inline v0::decoding
