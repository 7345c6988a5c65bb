// decant/decoding/samples.hpp - several answers to one prompt, which is computed once.
//
// Every answer grows on a fork of the store that holds the prompt, and all advance in one step, so
// that weights are read once for a token of each. Answer i has the random numbers of sequence
// `options.sequence + i`: its tokens are those that generate() gives for that sequence, bit for
// bit.
//
// Tested by   tests/decoding/samples_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/paged.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <concepts>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

// Continues `prompt` in `samples` ways, giving each new token to `sink` with the index of its
// answer; a sink that returns false ends that answer.
//
// At the end the store holds the prompt; answers are forks of it and take pages of its pool. If
// none is free, the answer that needs one ends with cache_full.
//
// Errors   before anything changed: std::invalid_argument (as generate(); no samples; recompute; a
//          workspace with fewer rows, rows of logits or sequences than samples), CacheFull if the
//          prompt is longer than the store. Later: as generate(); the store then holds a beginning
//          of the prompt
// Cost     a step of `samples` rows for each token; copies one page of each answer
// Threads  store, pool, workspace and sink belong to the run until it returns
template <codec::Codec K, codec::Codec V, std::predicate<Index, const NewToken&> Sink>
std::vector<Generation> generate_samples(const model::Decoder& decoder, kv::Paged<K, V>& store,
                                         model::Workspace& workspace, std::span<const Token> prompt,
                                         const GenerateOptions& options, Index samples,
                                         Sink&& sink) {
  return detail::PagedRuns<kv::Paged<K, V>>::generate_samples(decoder, store, workspace, prompt,
                                                              options, samples, sink);
}

}  // namespace decant::inline DECANT_ABI::decoding

#if !defined(DECANT_COMPILED)
#include <decant/decoding/detail/samples.hpp>
#endif
