// decant/decoding/beam.hpp - the most probable continuations that a search of bounded width finds.
//
// All beams advance in one step, each on a fork of the store that holds what it has in common with
// the others. Of every beam's tokens the best 2 * beams (more where several tokens end a text) of
// all together are looked at, so that enough go on when some end.
//
//   score of an answer   (sum of log-probabilities) / length^length_penalty
//
// Length counts new tokens, the one that ended the text included, for finished and running beams
// alike. Equal scores go by the earlier beam, then the lower token.
//
// Depends on  decoding/log_probabilities.hpp, kv/paged.hpp,
// model/{batch,decoder,workspace}.hpp Source      Hugging Face transformers, BeamSearchScorer
// (semantics) Tested by   tests/decoding/beam_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/store_check.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

// When a search ends that has as many answers as beams.
enum class EarlyStopping {
  yes,    // at once
  no,     // when no running beam, were it to end now, could beat the worst answer
  never,  // when none could at whatever length
};

struct BeamOptions {
  Index beams = 4;
  Index answers = 1;  // up to beams
  Index max_new_tokens = 64;
  double length_penalty = 1.0;  // above 0 long answers gain, below 0 they lose
  EarlyStopping early_stopping = EarlyStopping::no;
  std::vector<Token> end_tokens = {};
};

struct BeamAnswer {
  std::vector<Token> tokens;  // without the one that ended it
  double score = 0.0;
  bool ended = false;  // by an end token
};

// Errors   std::invalid_argument naming the option and its value
inline void check(const BeamOptions& options) {
  expects(options.beams >= 1, "decoding::BeamOptions: beams is ", options.beams);
  expects(options.answers >= 1 && options.answers <= options.beams,
          "decoding::BeamOptions: answers is ", options.answers, ", of ", options.beams, " beams");
  expects(options.max_new_tokens >= 1, "decoding::BeamOptions: max_new_tokens is ",
          options.max_new_tokens);
  expects(std::isfinite(options.length_penalty), "decoding::BeamOptions: length_penalty is ",
          options.length_penalty);
}

namespace detail {

// Finished answers, the best `most` of them.
class Answers {
 public:
  Answers(Index most, double length_penalty) : most_(most), length_penalty_(length_penalty) {}

  double score(double sum, Index length) const {
    return sum / std::pow(static_cast<double>(length), length_penalty_);
  }

  // An answer of `length` tokens, counting one that ended it.
  void add(std::vector<Token> tokens, double sum, Index length, bool ended) {
    const double its = score(sum, length);
    if (full() && its <= answers_.back().score) return;
    const auto place = std::ranges::upper_bound(answers_, its, std::ranges::greater{},
                                                &BeamAnswer::score);  // the earlier of equal ones
    answers_.insert(place, {std::move(tokens), its, ended});
    if (std::ssize(answers_) > most_) answers_.pop_back();
  }

  bool full() const noexcept { return std::ssize(answers_) == most_; }

  // Whether a beam of that sum, `length` tokens after it ends, cannot come among them.
  bool closed(const BeamOptions& options, double best_sum, Index length) const {
    if (!full()) return false;
    if (options.early_stopping == EarlyStopping::yes) return true;
    const bool any_length =
        options.early_stopping == EarlyStopping::never && options.length_penalty > 0;
    return answers_.back().score >= score(best_sum, any_length ? options.max_new_tokens : length);
  }

  std::vector<BeamAnswer> best(Index count) && {
    if (std::ssize(answers_) > count) {
      answers_.erase(answers_.begin() + count, answers_.end());
    }
    return std::move(answers_);
  }

 private:
  Index most_;
  double length_penalty_;
  std::vector<BeamAnswer> answers_;  // the best first
};

// One way on: which beam, with which token.
struct Step {
  std::size_t beam = 0;
  Token token = 0;
  double sum = 0.0;
};

// One search in progress.
template <class Store>
class BeamSearch {
 public:
  BeamSearch(const model::Decoder& decoder, model::Workspace& workspace, const BeamOptions& options)
      : decoder_(decoder),
        workspace_(workspace),
        options_(options),
        answers_(options.beams, options.length_penalty) {}

  std::vector<BeamAnswer> run(Store& store, std::span<const Token> prompt) {
    prefill(store, prompt);
    std::vector<Step> steps = steps_from(0);
    beams_.push_back({store.fork(), {}, 0.0});
    rank(steps);
    for (Index length = 1;; ++length) {
      advance(steps, length);
      if (beams_.empty() || length == options_.max_new_tokens ||
          answers_.closed(options_, beams_.front().sum, length)) {
        break;
      }
      steps = step();
    }
    for (Beam& beam : beams_) {
      const Index length = std::ssize(beam.tokens);
      answers_.add(std::move(beam.tokens), beam.sum, length, false);
    }
    return std::move(answers_).best(options_.answers);
  }

 private:
  struct Beam {
    Store store;
    std::vector<Token> tokens;
    double sum = 0.0;
  };

  void prefill(Store& store, std::span<const Token> prompt) {
    store.rewind(std::min<Position>(store.end(), std::ssize(prompt) - 1));
    while (store.end() < std::ssize(prompt)) {
      const auto rest = prompt.subspan(static_cast<std::size_t>(store.end()));
      const Index rows = std::min(workspace_.limits().rows, std::ssize(rest));
      batch_.clear();
      batch_.add(store, rest.first(static_cast<std::size_t>(rows)),
                 rows == std::ssize(rest) ? model::Logits::last : model::Logits::none);
      decoder_.step(batch_, workspace_);
    }
  }

  // Ways on that are looked at: even where all end tokens of all beams are among them, as many
  // others as there are beams.
  Index looked_at() const noexcept {
    return std::max<Index>(2, 1 + std::ssize(options_.end_tokens)) * options_.beams;
  }

  // The best ways on from one beam, whose logits are in a row of the workspace.
  std::vector<Step> steps_from(std::size_t beam) {
    const std::span<float> logits = workspace_.logits(static_cast<Index>(beam));
    const double sum = beams_.empty() ? 0.0 : beams_[beam].sum;
    std::vector<Step> steps;
    for (const LogProbability& best : log_probabilities(logits, 0, looked_at()).top) {
      if (std::isinf(best.value)) break;
      steps.push_back({beam, best.token, sum + best.value});
    }
    return steps;
  }

  void rank(std::vector<Step>& steps) const {
    std::ranges::sort(steps, [](const Step& a, const Step& b) {
      if (a.sum != b.sum) return a.sum > b.sum;
      return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
    });
    steps.resize(std::min(steps.size(), static_cast<std::size_t>(looked_at())));
  }

  // Feeds the last token of every beam, all in one step.
  std::vector<Step> step() {
    batch_.clear();
    for (Beam& beam : beams_) batch_.add(beam.store, {&beam.tokens.back(), 1});
    decoder_.step(batch_, workspace_);
    std::vector<Step> steps;
    for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
      const std::vector<Step> more = steps_from(beam);
      steps.insert(steps.end(), more.begin(), more.end());
    }
    rank(steps);
    return steps;
  }

  // Ends the texts that end among the first ways on, and makes the others the beams.
  void advance(std::span<const Step> steps, Index length) {
    std::vector<Beam> next;
    for (std::size_t at = 0; at < steps.size() && std::ssize(next) < options_.beams; ++at) {
      const Step& step = steps[at];
      Beam& parent = beams_[step.beam];
      if (std::ranges::count(options_.end_tokens, step.token) > 0) {
        const bool late = static_cast<Index>(at) >= options_.beams;
        if (!late) answers_.add(parent.tokens, step.sum, length, true);
        continue;
      }
      next.push_back({parent.store.fork(), parent.tokens, step.sum});
      next.back().tokens.push_back(step.token);
    }
    beams_ = std::move(next);
  }

  const model::Decoder& decoder_;
  model::Workspace& workspace_;
  const BeamOptions& options_;
  Answers answers_;
  std::vector<Beam> beams_;  // the best first
  model::Batch<Store> batch_;
};

}  // namespace detail

// The best answers to a prompt, the best first.
//
// What the store holds is taken as the beginning of the prompt, as generate() does, and at the end
// it holds the prompt; beams are forks of it and take pages of its pool.
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, options, a store or a
//          workspace made for another model, or one with fewer rows, rows of logits or sequences
//          than beams). Later: CacheFull, BadLogits, NoCandidate; the store then holds a beginning
//          of the prompt
// Cost     a step of `beams` rows for each token; copies one page of a beam that was forked
// Threads  store, pool and workspace belong to the search until it returns
template <codec::Codec K, codec::Codec V>
std::vector<BeamAnswer> beam_search(const model::Decoder& decoder, kv::Paged<K, V>& store,
                                    model::Workspace& workspace, std::span<const Token> prompt,
                                    const BeamOptions& options) {
  check(options);
  expects(!prompt.empty(), "decoding::beam_search: the prompt is empty");
  model::check(decoder.config(), store, "decoding::beam_search");
  const model::Limits& limits = workspace.limits();
  expects(std::min({limits.rows, limits.logit_rows, limits.sequences}) >= options.beams,
          "decoding::beam_search: a workspace of ", limits.rows, " rows, ", limits.logit_rows,
          " of logits and ", limits.sequences, " sequences, for ", options.beams, " beams");
  return detail::BeamSearch<kv::Paged<K, V>>(decoder, workspace, options).run(store, prompt);
}

}  // namespace decant::inline v0::decoding
