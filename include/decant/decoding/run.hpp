// decant/decoding/run.hpp - one run of generate() in progress.
//
// A step feeds what the store lacks of the sequence, and then one token at a time with the guesses
// of a drafter behind it. Of each row the token is sampled as if the guesses were not there; they
// count for as long as they agree, and the others leave the store. So drafts change no token,
// unless rejection is asked for, which judges each guess by its distribution.
//
// Depends on  decoding/{drafter,feeding,generation,log_probabilities,rejection,sampler}.hpp,
//             model/{batch,decoder,profile,store_check,workspace}.hpp
// Tested by   tests/decoding/{generate,control,speculative,rejection}_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/random.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/decoding/penalties.hpp>
#include <decant/decoding/rejection.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/block.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

inline void check_options(const GenerateOptions& options, const model::Config& config,
                          Index prompt) {
  const auto count = [](Index number, const char* name) {
    expects(number >= 0, "decoding::generate: ", name, " is ", number);
  };
  count(options.max_new_tokens, "max_new_tokens");
  count(options.stop.min_new_tokens, "min_new_tokens");
  count(options.log_probabilities.value_or(0), "log_probabilities");
  count(options.prompt_tokens.value_or(0), "prompt_tokens");
  expects(options.prompt_tokens.value_or(0) <= prompt, "decoding::generate: prompt_tokens is ",
          options.prompt_tokens.value_or(0), ", of a prompt of ", prompt);
  expects(options.max_seconds >= 0, "decoding::generate: max_seconds is ", options.max_seconds);
  for (Token token : options.stop.stop_tokens) {
    expects(token >= 0 && token < config.vocabulary, "decoding::generate: token ", token,
            " of the stop tokens is outside the vocabulary of ", config.vocabulary);
  }
}

// One run in progress: the sequence so far, and what was noted about it.
template <kv::Store S, Drafter D>
class Run {
 public:
  // Checks everything; changes nothing.
  Run(const model::Decoder& decoder, S& store, model::Workspace& workspace,
      std::span<const Token> prompt, const GenerateOptions& options, D& drafter)
      : decoder_(decoder),
        store_(store),
        workspace_(workspace),
        drafter_(drafter),
        options_(options),
        room_(room(decoder, store)),
        sampler_(options.sampler, decoder.config().vocabulary),
        given_(options.prompt_tokens.value_or(std::ssize(prompt))),
        sequence_(prompt.begin(), prompt.end()) {
    check_prompt(prompt, decoder.config(), room_, "decoding::generate");
    check_options(options, decoder.config(), std::ssize(prompt));
    check(decoder.config(), store, "decoding::generate");
    expects(workspace.config() == decoder.config(),
            "decoding::generate: the workspace was made for another configuration");
    if constexpr (requires { drafter.vocabulary(); }) {
      expects(drafter.vocabulary() == decoder.config().vocabulary,
              "decoding::generate: drafts of a vocabulary of ", drafter.vocabulary(),
              ", for one of ", decoder.config().vocabulary);
    }
    const Index reused =
        options.recompute ? 0 : std::min<Index>(store.end(), std::ssize(prompt) - 1);
    expects<CannotRewind>(reused == 0 || reused >= store.earliest_rewind(),
                          "decoding::generate: the store cannot go back to ", reused,
                          " tokens, only to ", store.earliest_rewind());
    result_.statistics.prompt_tokens = std::ssize(prompt);
    result_.statistics.cached_tokens = reused;
  }

  // Nothing, or why the prompt was not computed to its end.
  std::optional<Reason> prefill() {
    store_.rewind(result_.statistics.cached_tokens);
    const auto interrupted = catch_up();
    result_.statistics.prefill_seconds = watch_.seconds();
    return interrupted;
  }

  template <class Sink>
  Reason decode(Sink& sink) {
    try {
      const Reason reason = take_tokens(sink);
      forget_drafts(result_.ended_by || generated() == 0 ? 0 : 1);
      return reason;
    } catch (...) {
      forget_drafts(0);
      throw;
    }
  }

  Generation finish(Reason reason) {
    const auto prompt = static_cast<std::ptrdiff_t>(result_.statistics.prompt_tokens);
    result_.tokens.assign(sequence_.begin() + prompt, sequence_.end());
    result_.reason = reason;
    result_.statistics.generated_tokens = generated();
    result_.statistics.cache_bytes = store_.bytes();
    return std::move(result_);
  }

 private:
  template <class Sink>
  Reason take_tokens(Sink& sink) {
    Index row = 0;  // of the logits that come next
    while (generated() < options_.max_new_tokens) {
      const Token token = sample(row);
      if (options_.stop.is_end(token) || options_.stop.is_stop(token)) return end_by(token);
      append(token);
      if (!sink(token)) return Reason::sink;
      if (generated() == options_.max_new_tokens) break;
      if (row < std::ssize(drafts_) && drafts_[static_cast<std::size_t>(row)] == token) {
        result_.statistics.accepted_tokens += 1;
        row += 1;
        continue;
      }
      if (std::ssize(sequence_) > room_.tokens) return room_.beyond;
      forget_drafts(1);
      if (options_.recompute) store_.rewind(0);
      try {
        if (const auto interrupted = catch_up()) return *interrupted;
      } catch (const CacheFull&) {  // others have taken what the pool had
        return Reason::cache_full;
      }
      row = 0;
    }
    return Reason::length;
  }

  // Takes rejected drafts out of the store, and of the sequence its last `unfed` tokens.
  void forget_drafts(Index unfed) {
    const Position end = std::ssize(sequence_) - unfed;
    if (store_.end() > end) store_.rewind(end);
    drafts_.clear();
  }

  // How many drafts a step has room for beside the last token.
  Index draft_room() const {
    const model::Limits& limits = workspace_.limits();
    return std::max<Index>(0, std::min({limits.rows - 1, limits.logit_rows - 1, store_.chunk() - 1,
                                        room_.tokens - std::ssize(sequence_),
                                        options_.max_new_tokens - generated() - 1}));
  }

  // Feeds the last token, with guesses behind it where the store has room for them.
  void feed_last() {
    const Index most = draft_room();
    if (most > 0) {
      const std::span<const Token> drafts = drafter_.propose({sequence_, given_}, most);
      drafts_.assign(drafts.begin(), drafts.end());
    }
    fed_.assign(1, sequence_.back());
    fed_.insert(fed_.end(), drafts_.begin(), drafts_.end());
    try {
      step(fed_, drafts_.empty() ? model::Logits::last : model::Logits::all);
    } catch (const CacheFull&) {
      if (drafts_.empty()) throw;
      drafts_.clear();
      step(std::span(fed_).first(1), model::Logits::last);
    }
    result_.statistics.proposed_tokens += std::ssize(drafts_);
  }

  void step(std::span<const Token> tokens, model::Logits wanted) {
    batch_.clear();
    batch_.add(store_, tokens, wanted);
    decoder_.step(batch_, workspace_);
  }

  Index generated() const noexcept {
    return std::ssize(sequence_) - result_.statistics.prompt_tokens;
  }

  std::optional<Reason> interruption() const {
    if (options_.cancel.stop_requested()) return Reason::cancelled;
    if (watch_.seconds() > options_.max_seconds) return Reason::time;
    return std::nullopt;
  }

  // Feeds what the store lacks of the sequence; the logits of its last token are in row 0 then,
  // those of drafts in the rows behind it.
  std::optional<Reason> catch_up() {
    std::optional<Reason> why;
    const auto go_on = [&] { return !(why = interruption()); };
    if (generated() > 0 && store_.end() == std::ssize(sequence_) - 1) {
      if (go_on()) feed_last();
    } else {
      feed(decoder_, store_, workspace_, batch_, sequence_, go_on);
    }
    return why;
  }

  // What was not given: the text so far.
  std::span<const Token> text() const {
    return std::span(sequence_).subspan(static_cast<std::size_t>(given_));
  }

  Token sample(Index row) {
    const std::span<float> logits = workspace_.logits(row);
    if (options_.log_probabilities) raw_.assign(logits.begin(), logits.end());
    options_.stop.ban_early(logits, std::ssize(text()));
    if (options_.allowed) allow_only(logits, options_.allowed(text()));
    Token token = 0;
    model::profiled(
        workspace_.profile(), model::Operation::sampling,
        [&] { return model::Work{.bytes = static_cast<double>(logits.size_bytes())}; },
        [&] {
          sampler_.penalise(logits, {sequence_, given_});
          token = choose(logits, row);
        });
    return token;
  }

  Token choose(std::span<const float> logits, Index row) {
    const Position position = std::ssize(sequence_);
    if (options_.verification == Verification::agreement || row >= std::ssize(drafts_)) {
      return sampler_.sample(logits, options_.sequence, position);
    }
    std::span<const Candidate> draft;
    if constexpr (TellingDrafter<D>) draft = drafter_.distribution(row);
    const double u = uniform(options_.sampler.seed, options_.sequence, position, 1);
    return verify(sampler_.candidates(logits), draft, drafts_[static_cast<std::size_t>(row)], u);
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
  const model::Decoder& decoder_;
  S& store_;
  model::Workspace& workspace_;
  D& drafter_;
  const GenerateOptions& options_;
  Room room_;
  Sampler sampler_;
  Index given_;  // tokens of the sequence that are no text
  std::vector<Token> sequence_;
  std::vector<Token> drafts_;  // fed behind the sequence, and not yet rejected
  std::vector<Token> fed_;     // the last token and those
  std::vector<float> raw_;     // the row as the model gave it
  model::Batch<S> batch_;
  Generation result_;
};

}  // namespace detail

}  // namespace decant::inline v0::decoding
