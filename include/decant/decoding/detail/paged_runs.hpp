// decant/decoding/detail/paged_runs.hpp - the runs over many sequences, which need stores that
// share pages: declared together, so that one explicit instantiation compiles them all.
//
// Tested by   tests/decoding/{samples,beam,scheduler}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/detail/engine.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix_tree.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/workspace.hpp>

#include <memory>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::decoding {

struct BeamAnswer;
struct BeamOptions;

namespace detail {

// Other stores have none of these runs.
template <kv::Store S>
struct PagedRuns {};

template <codec::Codec K, codec::Codec V>
struct PagedRuns<kv::Paged<K, V>> {
  using Store = kv::Paged<K, V>;

  static std::vector<Generation> generate_samples(const model::Decoder& decoder, Store& store,
                                                  model::Workspace& workspace,
                                                  std::span<const Token> prompt,
                                                  const GenerateOptions& options, Index samples,
                                                  FunctionRef<bool(Index, const NewToken&)> sink);
  static std::vector<BeamAnswer> beam_search(const model::Decoder& decoder, Store& store,
                                             model::Workspace& workspace,
                                             std::span<const Token> prompt,
                                             const BeamOptions& options);
  // The engine of a scheduler. Its parameters are those of the scheduler's constructor.
  static std::unique_ptr<Engine> engine(const model::Decoder& decoder, model::Workspace& workspace,
                                        kv::PagePool<K, V>& pool, const SchedulerOptions& options,
                                        kv::PrefixTree<K, V>* tree);
};

}  // namespace detail

}  // namespace decant::inline DECANT_ABI::decoding
