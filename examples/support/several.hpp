// examples/support/several.hpp - several answers to one prompt: samples, or the most probable
// texts.
//
// Tested by   tests/examples/agreements.cmake, tests/examples/refusals.cmake
#pragma once

#include <decant/core/thread_pool.hpp>
#include <decant/decoding/beam.hpp>
#include <decant/decoding/samples.hpp>
#include <decant/model/decoder.hpp>
#include <decant/text/text_stream.hpp>
#include <decant/text/tokenizer.hpp>

#include "support/command_line.hpp"
#include "support/options.hpp"
#include "support/store.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace examples {

struct SeveralOptions {
  Index samples = 1;
  Index beams = 0;  // 0: none are searched
  double length_penalty = 1;

  bool wanted() const { return samples > 1 || beams > 0; }
};

inline void add_several(CommandLine& command, SeveralOptions& options) {
  add_number(command, "--samples", options.samples,
             "answers to the prompt, or the best of so many beams (1)", 1, 256);
  auto beams = add_number(command, "--beams", options.beams,
                          "the most probable texts, by a search this wide", 1, 256);
  constexpr double kMost = std::numeric_limits<double>::max();
  add_number(command, "--length-penalty", options.length_penalty,
             "of beams: above 0 long answers gain (1)", -kMost, kMost)
      .needs(beams);
}

// What all answers have in common.
struct Ground {
  const decant::text::Tokenizer& tokenizer;
  const decant::model::Decoder& decoder;
  std::span<const decant::Token> prompt;
  const decant::decoding::GenerateOptions& generate;
};

namespace detail {

inline decant::model::Workspace workspace_for(const Ground& ground, Index answers,
                                              decant::Executor& executor) {
  return {ground.decoder.config(),
          {.rows = std::max<Index>(answers, 64), .logit_rows = answers, .sequences = answers},
          executor};
}

template <class Store>
std::vector<std::string> samples(const Ground& ground, Index count, Store& store,
                                 decant::Executor& executor) {
  auto workspace = workspace_for(ground, count, executor);
  decant::decoding::GenerateOptions options = ground.generate;
  options.text = decant::text::TextStream(ground.tokenizer, ground.prompt);
  std::vector<std::string> texts;
  for (auto& answer : generate_samples(ground.decoder, store, workspace, ground.prompt, options,
                                       count, [](Index, decant::Token) { return true; })) {
    texts.push_back(std::move(answer.text));
  }
  return texts;
}

template <class Store>
std::vector<std::string> beams(const Ground& ground, const SeveralOptions& options, Store& store,
                               decant::Executor& executor) {
  auto workspace = workspace_for(ground, options.beams, executor);
  const decant::decoding::BeamOptions search = {
      .beams = options.beams,
      .answers = options.samples,
      .max_new_tokens = ground.generate.max_new_tokens,
      .length_penalty = options.length_penalty,
      .end_tokens = ground.generate.stop.end_tokens,
      .stop_strings = ground.generate.stop.stop_strings,
      .text = decant::text::TextStream(ground.tokenizer, ground.prompt),
      .banned_tokens = ground.generate.banned_tokens,
      .adapter = ground.generate.adapter};
  std::vector<std::string> texts;
  for (auto& answer : beam_search(ground.decoder, store, workspace, ground.prompt, search)) {
    texts.push_back(std::move(answer.text));
  }
  return texts;
}

}  // namespace detail

// The answers, which share the pages of what they have in common; those of beams in descending
// order of score.
inline std::vector<std::string> several(const SeveralOptions& options, const StoreOptions& store,
                                        const Ground& ground, Index threads) {
  namespace kv = decant::kv;
  decant::expects<UsageError>(store.kind != "ring",
                              "--store: several answers share pages, and a ring has none");
  decant::expects<UsageError>(store.formats.keys == store.formats.values,
                              "--cache-type: ", name(store.formats),
                              " is for one answer: several share pages of one format");
  decant::ThreadPool pool(threads);
  return decant::codec::visit_cache(store.formats.keys, [&]<class C>(C) {
    const Index tokens = std::ssize(ground.prompt) + ground.generate.max_new_tokens;
    const Index pages = decant::ceil_div(tokens, store.page_tokens) + 1;
    // Old and new beams exist together for a moment.
    const Index most = std::max(options.samples + 1, 2 * options.beams);
    kv::PagePool<C> memory(ground.decoder.config().geometry(), pages * most, store.page_tokens);
    kv::Paged<C> sequence(memory);
    return options.beams > 0 ? detail::beams(ground, options, sequence, pool)
                             : detail::samples(ground, options.samples, sequence, pool);
  });
}

}  // namespace examples
