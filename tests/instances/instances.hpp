// tests/instances/instances.hpp - says that the common instances of the big templates stand in
// f32.cpp, bf16.cpp and f16.cpp beside it, so that every other translation unit of tests,
// benchmarks and examples need not compile them again. The build puts this header in front of each.
#pragma once

#include <decant/attention/attend.hpp>
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

#ifndef DECANT_INSTANCE_OF
DECANT_INSTANCES(extern template, codec::F32)
DECANT_INSTANCES(extern template, codec::BF16)
DECANT_INSTANCES(extern template, codec::F16)
#endif
