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
// Depends on  decoding/{feeding,log_probabilities}.hpp, kv/paged.hpp,
//             model/{batch,decoder,workspace}.hpp
// Source      Hugging Face transformers, beam search of generate() (semantics)
// Tested by   tests/decoding/beam_test.cpp, tests/checkpoints/published_beams_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/log_probabilities.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
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

// Finished answers, as many of the best as there are beams.
class Answers {
 public:
  explicit Answers(const BeamOptions& options) : options_(options) {}

  // An answer of `length` tokens, counting one that ended it.
  void add(std::vector<Token> tokens, double sum, Index length, bool ended) {
    const double score = score_of(sum, length);
    if (full() && score <= answers_.back().score) return;
    const auto place = std::ranges::upper_bound(answers_, score, std::ranges::greater{},
                                                &BeamAnswer::score);  // the earlier of equal ones
    answers_.insert(place, {std::move(tokens), score, ended});
    if (std::ssize(answers_) > options_.beams) answers_.pop_back();
  }

  bool full() const noexcept { return std::ssize(answers_) == options_.beams; }

  // Whether the search is over: no running beam, of which the best has this sum and length, can
  // still come among the answers.
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
      : decoder_(decoder), workspace_(workspace), options_(options), answers_(options) {}

  // `most`: new tokens of an answer, as far as the options and the store go.
  std::vector<BeamAnswer> run(Store& store, std::span<const Token> prompt, Index most) {
    store.rewind(std::min<Position>(store.end(), std::ssize(prompt) - 1));
    feed(decoder_, store, workspace_, batch_, prompt, [] { return true; });
    beams_.push_back({store.fork(), {}, 0.0});
    for (Index length = 1;; ++length) {
      advance(ways_on(), length);
      if (beams_.empty() || answers_.closed(beams_.front().sum, length)) break;
      if (length == most) {  // running beams end here
        for (Beam& beam : beams_) answers_.add(std::move(beam.tokens), beam.sum, length, false);
        break;
      }
      step();
    }
    return std::move(answers_).take(options_.answers);
  }

 private:
  struct Beam {
    Store store;
    std::vector<Token> tokens;
    double sum = 0.0;
  };

  // Ways on that are looked at: even where all end tokens of all beams are among them, as many
  // others as there are beams.
  Index looked_at() const noexcept {
    return std::max<Index>(2, 1 + std::ssize(options_.end_tokens)) * options_.beams;
  }

  // Feeds the last token of every beam, all in one step.
  void step() {
    batch_.clear();
    for (Beam& beam : beams_) batch_.add(beam.store, {&beam.tokens.back(), 1});
    decoder_.step(batch_, workspace_);
  }

  // The best ways on from all beams, whose logits are in the rows of the workspace.
  std::vector<Step> ways_on() {
    std::vector<Step> steps;
    for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
      const std::span<const float> logits = workspace_.logits(static_cast<Index>(beam));
      for (const LogProbability& best : top_log_probabilities(logits, looked_at())) {
        if (std::isinf(best.value)) break;
        steps.push_back({beam, best.token, beams_[beam].sum + best.value});
      }
    }
    std::ranges::sort(steps, [](const Step& a, const Step& b) {
      if (a.sum != b.sum) return a.sum > b.sum;
      return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
    });
    steps.resize(std::min(steps.size(), static_cast<std::size_t>(looked_at())));
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
// it holds the prompt; beams are forks of it and take pages of its pool. Where the model has
// learned fewer positions than the options ask for, answers end there.
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, ids outside the
//          vocabulary, options, a store or a workspace made for another model, or one with fewer
//          rows, rows of logits or sequences than beams), CacheFull where the prompt is longer than
//          the store. Later: BadLogits, NoCandidate, and CacheFull where the pool has no page for a
//          beam; the store then holds a beginning of the prompt
// Cost     a step of `beams` rows and O(beams * vocabulary) exponentials for each token; copies one
//          page of a beam that was forked
// Threads  store, pool and workspace belong to the search until it returns
template <codec::Codec K, codec::Codec V>
std::vector<BeamAnswer> beam_search(const model::Decoder& decoder, kv::Paged<K, V>& store,
                                    model::Workspace& workspace, std::span<const Token> prompt,
                                    const BeamOptions& options) {
  constexpr const char* kWho = "decoding::beam_search";
  check(options);
  detail::check_prompt(prompt, decoder.config(), kWho);
  const detail::Room room = detail::check_run(decoder, store, workspace, prompt, kWho);
  detail::check_width(workspace, options.beams, "beams", kWho);
  // The last token of an answer is not fed.
  const Index most = std::min(options.max_new_tokens, room.tokens - std::ssize(prompt) + 1);
  return detail::BeamSearch<kv::Paged<K, V>>(decoder, workspace, options).run(store, prompt, most);
}

}  // namespace decant::inline v0::decoding
