// decant/instantiate.hpp - compiles attention, steps and the runs of decoding (generate(), and for
// kv::Paged samples, beam search and the scheduler) for a store of your own.
//
// A program that links decant::compiled finds them there for kv::Contiguous, kv::Paged and kv::Ring
// with keys and values in one format, and for the common mixes of formats. For any other store,
// mask or score, one source file includes this header. It brings the definitions of all templates,
// so that what the file calls is compiled in it, and
//
//   DECANT_INSTANTIATE(kv::Contiguous<codec::F16, codec::FP8E4M3>)
//
// outside of any namespace makes every other file find them too. Header-only programs need neither.
//
// Tested by   tests/consumer/find_package
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/attention/detail/attend.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/core/config.hpp>
#include <decant/decoding/detail/beam.hpp>
#include <decant/decoding/detail/generate.hpp>
#include <decant/decoding/detail/paged_engine.hpp>
#include <decant/decoding/detail/paged_runs.hpp>
#include <decant/decoding/detail/samples.hpp>
#include <decant/decoding/generate.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/decoder.hpp>
#include <decant/model/detail/step.hpp>

// What a store needs, kernels and decode loop apart. `keyword` is template, or extern template.
#define DECANT_STEP_OF(keyword, ...)                                                       \
  namespace decant::inline DECANT_ABI {                                                    \
  keyword void attention::attend(std::span<const attention::Sequence<__VA_ARGS__>>,        \
                                 const attention::Problem&, const attention::Causal&,      \
                                 const attention::Plain&, attention::Scratch&, Executor&); \
  keyword void model::Decoder::step(model::Batch<__VA_ARGS__>&, model::Workspace&) const;  \
  }
#define DECANT_GENERATE_OF(keyword, ...)                                              \
  namespace decant::inline DECANT_ABI {                                               \
  keyword decoding::Generation decoding::detail::generate(                            \
      const model::Decoder&, __VA_ARGS__&, model::Workspace&, std::span<const Token>, \
      const decoding::GenerateOptions&, FunctionRef<bool(const decoding::NewToken&)>, \
      const decoding::detail::Drafting*);                                             \
  }

#define DECANT_PAGED_RUNS_OF(keyword, ...)                 \
  namespace decant::inline DECANT_ABI {                    \
  keyword struct decoding::detail::PagedRuns<__VA_ARGS__>; \
  }

#define DECANT_INSTANTIATE(...)             \
  DECANT_STEP_OF(template, __VA_ARGS__)     \
  DECANT_GENERATE_OF(template, __VA_ARGS__) \
  DECANT_PAGED_RUNS_OF(template, __VA_ARGS__)

// One of these macros for every kind of store with these formats.
#define DECANT_INSTANCES_OF_FORMATS(instances, keyword, Keys, Values)                          \
  instances(keyword, kv::Contiguous<Keys, Values>) instances(keyword, kv::Paged<Keys, Values>) \
      instances(keyword, kv::Ring<Keys, Values>)

// Steps with keys and values in one format. All stores of that format share its tiles.
#define DECANT_INSTANCES_OF_FORMAT(keyword, Format)                                             \
  namespace decant::inline DECANT_ABI {                                                         \
  keyword void attention::detail::visit_tile(const attention::detail::QueryTile&,               \
                                             const attention::detail::KeyTile<Format, Format>&, \
                                             const Range&, const attention::Causal&,            \
                                             const attention::Plain&,                           \
                                             const attention::Scratch::Worker&);                \
  }                                                                                             \
  DECANT_INSTANCES_OF_FORMATS(DECANT_STEP_OF, keyword, Format, Format)

#define DECANT_INSTANCES_OF_MIXED_FORMATS(instances, keyword)              \
  DECANT_INSTANCES_OF_FORMATS(instances, keyword, codec::F16, codec::Int8) \
  DECANT_INSTANCES_OF_FORMATS(instances, keyword, codec::F16, codec::Int4) \
  DECANT_INSTANCES_OF_FORMATS(instances, keyword, codec::Int8, codec::F16) \
  DECANT_INSTANCES_OF_FORMATS(instances, keyword, codec::Int8, codec::Int4)

// DECANT_GENERATE_OF or DECANT_PAGED_RUNS_OF for all stores that decant::compiled has.
#define DECANT_INSTANCES_OF_RUNS(runs, keyword)                              \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::F32, codec::F32)         \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::BF16, codec::BF16)       \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::F16, codec::F16)         \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::Int8, codec::Int8)       \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::Int4, codec::Int4)       \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::FP8E4M3, codec::FP8E4M3) \
  DECANT_INSTANCES_OF_FORMATS(runs, keyword, codec::FP8E5M2, codec::FP8E5M2) \
  DECANT_INSTANCES_OF_MIXED_FORMATS(runs, keyword)

#if defined(DECANT_COMPILED)  // what decant::compiled has need not be compiled again
DECANT_INSTANCES_OF_FORMAT(extern template, codec::F32)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::BF16)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::F16)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::Int8)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::Int4)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::FP8E4M3)
DECANT_INSTANCES_OF_FORMAT(extern template, codec::FP8E5M2)
DECANT_INSTANCES_OF_MIXED_FORMATS(DECANT_STEP_OF, extern template)
DECANT_INSTANCES_OF_RUNS(DECANT_GENERATE_OF, extern template)
DECANT_INSTANCES_OF_RUNS(DECANT_PAGED_RUNS_OF, extern template)
#endif
