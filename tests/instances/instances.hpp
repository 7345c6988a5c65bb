// tests/instances/instances.hpp - says that the common instances of the big templates stand in
// the files beside it, so that every other translation unit of tests, benchmarks and examples need
// not compile them again. The build puts this header in front of each.
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kv/contiguous.hpp>
#include <decant/model/decoder.hpp>

// `Codec` is the format of weights in products, and of keys and values in attention and steps.
#define DECANT_INSTANCES(Keyword, Codec)                                                      \
  namespace decant::inline v0 {                                                               \
  Keyword void kernels::multiply(const kernels::Packed<Codec>&, const kernels::Product&,      \
                                 kernels::RowTiles&, Executor&);                              \
  Keyword void attention::attend(std::span<const attention::Sequence<kv::Contiguous<Codec>>>, \
                                 const attention::Problem&, const attention::Causal&,         \
                                 const attention::Plain&, attention::Scratch&, Executor&);    \
  Keyword void model::Decoder::step(model::Batch<kv::Contiguous<Codec>>&,                     \
                                    model::Workspace&) const;                                 \
  }

// The same for weights in blocks, which are in products alone.
#define DECANT_BLOCK_INSTANCES(Keyword, Codec)                                                 \
  namespace decant::inline v0 {                                                                \
  Keyword void kernels::multiply(const kernels::PackedBlocks<Codec>&, const kernels::Product&, \
                                 kernels::RowTiles&, Executor&);                               \
  }

#ifndef DECANT_INSTANCE_OF
DECANT_BLOCK_INSTANCES(extern template, codec::Q8_0)
DECANT_BLOCK_INSTANCES(extern template, codec::Q4_0)
DECANT_INSTANCES(extern template, codec::F32)
DECANT_INSTANCES(extern template, codec::BF16)
DECANT_INSTANCES(extern template, codec::F16)
#endif
