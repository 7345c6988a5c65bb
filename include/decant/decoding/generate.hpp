// decant/decoding/generate.hpp - from a prompt to the tokens that follow it.
//
// One run feeds what the store lacks of the sequence, samples the next token, and repeats. The
// first feeding is the prefill, later ones are single rows; recomputing is the same on a store
// that is emptied before each, so there is no second path that could differ.
//
// Depends on  decoding/sampler.hpp, decoding/statistics.hpp, decoding/stop.hpp,
//             model/batch.hpp, model/decoder.hpp, model/workspace.hpp, core/error.hpp
// Tested by   tests/decoding/generate_test.cpp, tests/decoding/generate_limits_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/sampler.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/decoding/stop.hpp>
#include <decant/kv/block.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

struct GenerateOptions {
  Index max_new_tokens = 256;
  StopTokens stop = {};
  SamplerOptions sampler = {};
  std::uint64_t sequence = 0;  // whose random numbers; tell sequences of one seed apart by it
  bool recompute = false;      // every step starts from an empty store; the tokens are the same
};

// Why a run ended.
enum class Reason {
  length,          // max_new_tokens were generated
  end_token,       // the model ended its text
  stop_token,      // one of the caller's stop tokens came
  cache_full,      // the last token has no room in the store
  positions_full,  // the last token has no learned position
  sink,            // the token sink said so
};

constexpr std::string_view name(Reason reason) noexcept {
  constexpr std::array<std::string_view, 6> kNames = {"length",     "end token",      "stop token",
                                                      "cache full", "positions full", "sink"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct Generation {
  std::vector<Token> tokens = {};  // the new ones, without the token that ended the run
  Reason reason = Reason::length;
  std::optional<Token> ended_by = {};  // the end or stop token, where one came
  Statistics statistics = {};
};

namespace detail {

// The longest sequence whose tokens can all be fed, and what is short beyond it.
struct Room {
  Index tokens = 0;
  Reason beyond = Reason::cache_full;
};

template <kv::Store S>
Room room(const model::Decoder& decoder, const S& store) {
  const bool learned = !decoder.weights().positions.empty();
  const Index positions = decoder.config().max_positions;
  if (learned && positions < store.capacity()) return {positions, Reason::positions_full};
  return {store.capacity(), Reason::cache_full};
}

inline void check_tokens(std::span<const Token> tokens, Index vocabulary, const char* whose) {
  for (Token token : tokens) {
    expects(token >= 0 && token < vocabulary, "decoding::generate: token ", token, " of the ",
            whose, " is outside the vocabulary of ", vocabulary);
  }
}

inline void check_prompt(std::span<const Token> prompt, const model::Config& config,
                         const Room& room) {
  expects(!prompt.empty(), "decoding::generate: the prompt is empty");
  check_tokens(prompt, config.vocabulary, "prompt");
  const bool fits = std::ssize(prompt) <= room.tokens;
  expects(fits || room.beyond == Reason::cache_full, "decoding::generate: a prompt of ",
          prompt.size(), " tokens for a model of ", room.tokens, " positions");
  expects<CacheFull>(fits, "decoding::generate: a prompt of ", prompt.size(),
                     " tokens for a store of ", room.tokens);
}

inline void check_options(const GenerateOptions& options, const model::Config& config) {
  expects(options.max_new_tokens >= 0, "decoding::generate: max_new_tokens is ",
          options.max_new_tokens);
  expects(options.stop.min_new_tokens >= 0, "decoding::generate: min_new_tokens is ",
          options.stop.min_new_tokens);
  check_tokens(options.stop.stop_tokens, config.vocabulary, "stop tokens");
}

// One run in progress: the sequence so far, and what was noted about it.
template <kv::Store S>
class Run {
 public:
  // Checks everything; changes nothing.
  Run(const model::Decoder& decoder, S& store, model::Workspace& workspace,
      std::span<const Token> prompt, const GenerateOptions& options)
      : decoder_(decoder),
        store_(store),
        workspace_(workspace),
        options_(options),
        room_(room(decoder, store)),
        sampler_(options.sampler, decoder.config().vocabulary),
        sequence_(prompt.begin(), prompt.end()) {
    check_prompt(prompt, decoder.config(), room_);
    check_options(options, decoder.config());
    check(decoder.config(), store, "decoding::generate");
    expects(workspace.config() == decoder.config(),
            "decoding::generate: the workspace was made for another configuration");
    const Index reused =
        options.recompute ? 0 : std::min<Index>(store.end(), std::ssize(prompt) - 1);
    expects<CannotRewind>(reused == 0 || reused >= store.earliest_rewind(),
                          "decoding::generate: the store cannot go back to ", reused,
                          " tokens, only to ", store.earliest_rewind());
    result_.statistics.prompt_tokens = std::ssize(prompt);
    result_.statistics.cached_tokens = reused;
  }

  void prefill() {
    store_.rewind(result_.statistics.cached_tokens);
    catch_up();
    result_.statistics.prefill_seconds = watch_.seconds();
  }

  template <class Sink>
  Reason decode(Sink& sink) {
    while (generated() < options_.max_new_tokens) {
      const Token token = sample();
      if (options_.stop.is_end(token) || options_.stop.is_stop(token)) return end_by(token);
      append(token);
      if (!sink(token)) return Reason::sink;
      if (generated() == options_.max_new_tokens) break;
      if (std::ssize(sequence_) > room_.tokens) return room_.beyond;
      if (options_.recompute) store_.rewind(0);
      try {
        catch_up();
      } catch (const CacheFull&) {  // others have taken what the pool had
        return Reason::cache_full;
      }
    }
    return Reason::length;
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
  Index generated() const noexcept {
    return std::ssize(sequence_) - result_.statistics.prompt_tokens;
  }

  // Feeds what the store lacks of the sequence; the logits of its last token are in row 0 then.
  void catch_up() {
    while (store_.end() < std::ssize(sequence_)) {
      const auto rest =
          std::span<const Token>(sequence_).subspan(static_cast<std::size_t>(store_.end()));
      const Index rows = std::min({workspace_.limits().rows, store_.chunk(), std::ssize(rest)});
      const bool last = rows == std::ssize(rest);
      batch_.clear();
      batch_.add(store_, rest.first(static_cast<std::size_t>(rows)),
                 last ? model::Logits::last : model::Logits::none);
      decoder_.step(batch_, workspace_);
    }
  }

  Token sample() {
    const std::span<float> logits = workspace_.logits(0);
    options_.stop.ban_early(logits, generated());
    Token token = 0;
    model::profiled(
        workspace_.profile(), model::Operation::sampling,
        [&] { return model::Work{.bytes = static_cast<double>(logits.size_bytes())}; },
        [&] { token = sampler_.sample(logits, options_.sequence, std::ssize(sequence_)); });
    return token;
  }

  Reason end_by(Token token) {
    result_.ended_by = token;
    return options_.stop.is_end(token) ? Reason::end_token : Reason::stop_token;
  }

  void append(Token token) {
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
  const GenerateOptions& options_;
  Room room_;
  Sampler sampler_;
  std::vector<Token> sequence_;
  model::Batch<S> batch_;
  Generation result_;
};

}  // namespace detail

// Continues `prompt`, giving each new token to `sink` as soon as it is known; a sink that returns
// false ends the run after that token.
//
// `prompt` is the whole prompt. What the store holds is taken as the beginning of it (the caller
// vouches for that) and cut so that at least the last prompt token is computed. The prompt is fed
// even where max_new_tokens is 0. The last new token is not fed: the store then holds the prompt
// and the tokens before it, ready for a longer prompt that begins with them. Where no room is
// left for the last new token, the run ends with cache_full or positions_full.
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, ids outside the
//          vocabulary, options, a store or workspace made for another model, a prompt longer than
//          learned positions), CacheFull where the prompt is longer than the store, CannotRewind
//          where the store holds too little before the last prompt token. Later:
//          std::invalid_argument on logits that are NaN or infinite, CacheFull where the pages that
//          the prompt takes are not to be had, and whatever the sink throws; the store then holds a
//          beginning of the sequence
// Cost     one step per chunk of workspace.limits().rows prompt tokens, one per new token but the
//          last; with recompute, the whole sequence for each new token
// Threads  the store, the workspace and the sink belong to the run until it returns
template <kv::Store S, std::predicate<Token> Sink>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options, Sink&& sink) {
  detail::Run<S> run(decoder, store, workspace, prompt, options);
  run.prefill();
  return run.finish(run.decode(sink));
}

template <kv::Store S>
Generation generate(const model::Decoder& decoder, S& store, model::Workspace& workspace,
                    std::span<const Token> prompt, const GenerateOptions& options = {}) {
  return generate(decoder, store, workspace, prompt, options, [](Token) { return true; });
}

}  // namespace decant::inline v0::decoding
