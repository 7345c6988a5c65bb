// decant/decoding/beam.hpp - beam search: the most probable continuations that a given number of
// beams finds.
//
// All beams advance in one step, each on a fork of the store, so that beams share the pages of what
// they have in common. Each time, the best 2 * beams extensions of all beams together (more if
// there are several end tokens) are considered, so that enough beams go on when some end.
//
//   score of an answer   (sum of log-probabilities) / length^length_penalty
//
// Length counts new tokens, the one that ended the text included, for finished and running beams
// alike. Equal scores go by the earlier beam, then the lower token.
//
// Source      Hugging Face transformers, beam search of generate() (semantics)
// Tested by   tests/decoding/beam_test.cpp, tests/checkpoints/published_beams_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/penalties.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// When a search that has as many answers as beams ends.
enum class EarlyStopping {
  yes,    // at once
  no,     // when no running beam, were it to end now, could beat the worst answer
  never,  // when no running beam could, at any length
};

struct BeamOptions {
  Index beams = 4;
  Index answers = 1;  // up to beams
  Index max_new_tokens = 64;
  Index cached_tokens = 0;      // of the prompt, in the store already (GenerateOptions)
  double length_penalty = 1.0;  // above 0 favours long answers, below 0 short ones
  EarlyStopping early_stopping = EarlyStopping::no;
  std::vector<Token> end_tokens = {};
  // As in GenerateOptions; a beam whose text has a stop string has ended. Unlike an end token, that
  // is known only once the beams are chosen, so fewer than `beams` may go on.
  std::vector<std::string> stop_strings = {};
  std::function<std::string(std::optional<Token>)> text = {};
  // As in GenerateOptions, but scores count the log-probabilities of the logits that they leave.
  std::vector<std::function<void(const History&, std::span<float> logits)>> logits_processors = {};
  std::vector<Token> banned_tokens = {};               // never in an answer (GenerateOptions)
  std::shared_ptr<const model::Adapter> adapter = {};  // of all beams (GenerateOptions)
};

struct BeamAnswer {
  std::vector<Token> tokens;  // as Generation::tokens
  double score = 0.0;
  bool ended = false;     // by an end token or a stop string
  std::string text = {};  // if BeamOptions::text is set
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

// The best answers to a prompt, the best first.
//
// At the end the store holds the prompt; beams are forks of it and take pages of its pool. If
// learned positions or the pages of the pool run out, the search ends there as it does after
// max_new_tokens: finished answers stand, and running beams end.
//
// Errors   before anything changed: std::invalid_argument (an empty prompt, ids outside the
//          vocabulary, options, a store or a workspace made for another model, or one with fewer
//          rows, rows of logits or sequences than beams), CacheFull if the prompt is longer than
//          the store. Later: BadLogits, NoCandidate, CacheFull if the pool lacks the pages of the
//          prompt, and whatever functions of the options throw; the store then holds a beginning
//          of the prompt
// Cost     a step of `beams` rows and O(beams * vocabulary) exponentials for each token; copies one
//          page of a beam that was forked
// Threads  store, pool and workspace belong to the search until it returns
template <codec::Codec K, codec::Codec V>
std::vector<BeamAnswer> beam_search(const model::Decoder& decoder, kv::Paged<K, V>& store,
                                    model::Workspace& workspace, std::span<const Token> prompt,
                                    const BeamOptions& options) {
  return detail::PagedRuns<kv::Paged<K, V>>::beam_search(decoder, store, workspace, prompt,
                                                         options);
}

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/beam.hpp>
#endif
