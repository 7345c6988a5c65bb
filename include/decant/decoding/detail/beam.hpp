// decant/decoding/detail/beam.hpp - the search over forks of one sequence: what beam_search() does.
//
// Tested by   tests/decoding/beam_test.cpp
#pragma once

#include <decant/decoding/beam.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/detail/sequence.hpp>
#include <decant/decoding/log_probabilities.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline DECANT_ABI::decoding::detail {

// The best finished answers, at most as many as there are beams.
class Answers {
 public:
  explicit Answers(const BeamOptions& options) : options_(options) {}

  // `length` counts the new tokens, with those that ended the answer.
  void add(Generation&& answer, double sum, Index length, bool ended) {
    const double score = score_of(sum, length);
    if (full() && score <= answers_.back().score) return;
    const auto place = std::ranges::upper_bound(answers_, score, std::ranges::greater{},
                                                &BeamAnswer::score);  // the earlier of equal ones
    answers_.insert(place, {std::move(answer.tokens), score, ended, std::move(answer.text)});
    if (std::ssize(answers_) > options_.beams) answers_.pop_back();
  }

  bool full() const noexcept { return std::ssize(answers_) == options_.beams; }

  // Whether the search is over: no running beam, the best of which has this sum and length, can
  // still be among the answers.
  bool closed(double best_sum, Index length) const {
    if (!full()) return false;
    if (options_.early_stopping == EarlyStopping::yes) return true;
    const bool any_length =
        options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
    return answers_.back().score >=
           score_of(best_sum, any_length ? options_.max_new_tokens : length);
  }

  // The best first.
  std::vector<BeamAnswer> take(Index count) && {
    if (std::ssize(answers_) > count) {
      answers_.erase(answers_.begin() + count, answers_.end());
    }
    return std::move(answers_);
  }

 private:
  double score_of(double sum, Index length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  const BeamOptions& options_;
  std::vector<BeamAnswer> answers_;
};

// One search in progress.
template <class Store>
class BeamSearch {
 public:
  BeamSearch(Steps<Store>& steps, const BeamOptions& options)
      : steps_(steps), options_(options), answers_(options) {}

  // Searches from the prompt, whose last logits are in row 0, for answers of at most `most` tokens.
  std::vector<BeamAnswer> run(const Sequence<Store&>& prompt, Index most) {
    beams_.push_back({prompt.fork(), 0.0});
    for (Index length = 1;; ++length) {
      advance(extensions(), length);
      if (beams_.empty() || answers_.closed(beams_.front().sum, length)) break;
      if (length < most && step()) continue;
      for (const Beam& beam : beams_) {  // they end here
        add_answer(beam, beam.sum, length, false);
      }
      break;
    }
    return std::move(answers_).take(options_.answers);
  }

 private:
  struct Beam {
    Sequence<Store> sequence;
    double sum = 0.0;
  };
  // One beam with one more token.
  struct Extension {
    std::size_t beam = 0;
    Token token = 0;
    double sum = 0.0;
  };

  // Makes an answer of a beam, whose sum and length include the end token, if one ended it.
  void add_answer(const Beam& beam, double sum, Index length, bool end_token) {
    Text text = beam.sequence.text();
    constexpr auto kTake = [](const NewToken&) { return true; };
    const Reason reason = text.end(Reason::length, kTake);
    answers_.add(text.finish(reason), sum, length, end_token || reason == Reason::stop_string);
  }

  // How many extensions are considered: enough that, even if all end tokens of all beams are among
  // them, as many others remain as there are beams.
  Index looked_at() const noexcept {
    return std::max<Index>(2, 1 + std::ssize(options_.end_tokens)) * options_.beams;
  }

  // Feeds the last token of every beam in one step; false if the pool has no page for one.
  bool step() {
    steps_.batch.clear();
    for (Beam& beam : beams_) {
      beam.sequence.plan(1);
      if (beam.sequence.reserve()) return false;
      beam.sequence.fill(steps_.batch);
    }
    steps_.run();
    return true;
  }

  // The best extensions of all beams, whose logits are in the rows of the workspace.
  std::vector<Extension> extensions() {
    std::vector<Extension> all;
    for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
      const std::span<float> logits = steps_.workspace.logits(static_cast<Index>(beam));
      const History history = beams_[beam].sequence.text().history();
      for (const auto& process : options_.logits_processors) process(history, logits);
      const Index most = looked_at() + std::ssize(options_.banned_tokens);
      for (const LogProbability& best : top_log_probabilities(logits, most)) {
        if (std::isinf(best.value)) break;
        if (std::ranges::count(options_.banned_tokens, best.token) > 0) continue;
        all.push_back({beam, best.token, beams_[beam].sum + best.value});
      }
    }
    std::ranges::sort(all, [](const Extension& a, const Extension& b) {
      if (a.sum != b.sum) return a.sum > b.sum;
      return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
    });
    all.resize(std::min(all.size(), static_cast<std::size_t>(looked_at())));
    return all;
  }

  // Makes the best extensions the next beams. Those by an end token become answers, if they are
  // among the first options.beams.
  void advance(std::span<const Extension> extensions, Index length) {
    std::vector<Beam> next;
    for (std::size_t at = 0; at < extensions.size() && std::ssize(next) < options_.beams; ++at) {
      const Extension& extension = extensions[at];
      const Beam& parent = beams_[extension.beam];
      const bool late = static_cast<Index>(at) >= options_.beams;
      if (std::ranges::count(options_.end_tokens, extension.token) > 0) {
        if (!late) add_answer(parent, extension.sum, length, true);
        continue;
      }
      Beam beam{parent.sequence.fork(), extension.sum};
      beam.sequence.text().append(extension.token);
      if (beam.sequence.text().ended()) {
        if (!late) add_answer(beam, extension.sum, length, false);
      } else {
        next.push_back(std::move(beam));
      }
    }
    beams_ = std::move(next);
  }

  Steps<Store>& steps_;
  const BeamOptions& options_;
  Answers answers_;
  std::vector<Beam> beams_;  // the best first
};

template <codec::Codec K, codec::Codec V>
std::vector<BeamAnswer> PagedRuns<kv::Paged<K, V>>::beam_search(const model::Decoder& decoder,
                                                                Store& store,
                                                                model::Workspace& workspace,
                                                                std::span<const Token> prompt,
                                                                const BeamOptions& options) {
  constexpr const char* kWho = "decoding::beam_search";
  decoding::check(options);
  Steps<Store> steps{decoder, workspace};
  const GenerateOptions prefill = {.cached_tokens = options.cached_tokens,
                                   .stop = {.stop_strings = options.stop_strings},
                                   .text = options.text,
                                   .banned_tokens = options.banned_tokens,
                                   .adapter = options.adapter};
  const Room room = check_run(steps, store, prompt, prefill, kWho);
  check_sequences(workspace, options.beams, "beams", kWho);
  Sequence<Store&> sequence(Text(prompt, prefill, decoder.config().vocabulary), store, room);
  sequence.reuse_store(kWho);
  sequence.feed(steps);
  // The last token of an answer is not fed.
  const Index most = std::min(options.max_new_tokens, room.tokens - std::ssize(prompt) + 1);
  return BeamSearch<Store>(steps, options).run(sequence, most);
}

}  // namespace decant::inline DECANT_ABI::decoding::detail
