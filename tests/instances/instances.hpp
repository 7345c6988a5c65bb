// tests/instances/instances.hpp - says that the common instances of the big templates stand in
// the files beside it, so that every other translation unit of tests, benchmarks and examples need
// not compile them again. The build puts this header in front of each.
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/codec/scaled.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/ring.hpp>
#include <decant/model/decoder.hpp>

// Attention over one kind of store, and steps that append to it.
#define DECANT_STORE_INSTANCES(Keyword, Store)                                             \
  namespace decant::inline v0 {                                                            \
  Keyword void attention::attend(std::span<const attention::Sequence<Store>>,              \
                                 const attention::Problem&, const attention::Causal&,      \
                                 const attention::Plain&, attention::Scratch&, Executor&); \
  Keyword void model::Decoder::step(model::Batch<Store>&, model::Workspace&) const;        \
  }

// Every kind of store, with keys and values in the format `Codec`; any other pays for what is not
// in a tile of attention.
#define DECANT_CACHE_INSTANCES(Keyword, Codec)                                                \
  namespace decant::inline v0 {                                                               \
  Keyword void attention::detail::visit_tile(const attention::detail::QueryTile&,             \
                                             const attention::detail::KeyTile<Codec, Codec>&, \
                                             const Range&, const attention::Causal&,          \
                                             const attention::Plain&,                         \
                                             const attention::Scratch::Worker&);              \
  }                                                                                           \
  DECANT_STORE_INSTANCES(Keyword, kv::Contiguous<Codec>)                                      \
  DECANT_STORE_INSTANCES(Keyword, kv::Paged<Codec>)                                           \
  DECANT_STORE_INSTANCES(Keyword, kv::Ring<Codec>)

// Keys and values in formats of their own, in a contiguous store alone.
#define DECANT_PAIR_INSTANCES(Keyword, Keys, Values)               \
  namespace decant::trial {                                        \
  using Keys##Values = kv::Contiguous<codec::Keys, codec::Values>; \
  }                                                                \
  DECANT_STORE_INSTANCES(Keyword, trial::Keys##Values)

// And products by weights in that format.
#define DECANT_INSTANCES(Keyword, Codec)                                                 \
  namespace decant::inline v0 {                                                          \
  Keyword void kernels::multiply(const kernels::Packed<Codec>&, const kernels::Product&, \
                                 kernels::RowTiles&, Executor&);                         \
  }                                                                                      \
  DECANT_CACHE_INSTANCES(Keyword, Codec)

// The same for weights in blocks, which are in products alone.
#define DECANT_BLOCK_INSTANCES(Keyword, Codec)                                                 \
  namespace decant::inline v0 {                                                                \
  Keyword void kernels::multiply(const kernels::PackedBlocks<Codec>&, const kernels::Product&, \
                                 kernels::RowTiles&, Executor&);                               \
  }

DECANT_BLOCK_INSTANCES(extern template, codec::Q8_0)
DECANT_BLOCK_INSTANCES(extern template, codec::Q4_0)
DECANT_INSTANCES(extern template, codec::F32)
DECANT_INSTANCES(extern template, codec::BF16)
DECANT_INSTANCES(extern template, codec::F16)
DECANT_CACHE_INSTANCES(extern template, codec::Int8)
DECANT_CACHE_INSTANCES(extern template, codec::Int4)
DECANT_CACHE_INSTANCES(extern template, codec::FP8E4M3)
DECANT_PAIR_INSTANCES(extern template, F16, Int8)
DECANT_PAIR_INSTANCES(extern template, F16, Int4)
DECANT_PAIR_INSTANCES(extern template, Int8, F16)
DECANT_PAIR_INSTANCES(extern template, Int8, Int4)
DECANT_CACHE_INSTANCES(extern template, codec::FP8E5M2)
