// tests/instances/instances.hpp - says that the common instances of the big templates stand in
// instances.cpp, so that every other translation unit of tests, benchmarks and examples need not
// compile them again. The build puts this header in front of each.
#pragma once

#include <decant/attention/attend.hpp>
#include <decant/codec/plain.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kv/contiguous.hpp>

#ifndef DECANT_INSTANCE
#define DECANT_INSTANCE extern template
#endif

namespace decant::inline v0 {

DECANT_INSTANCE void kernels::multiply(const kernels::Packed<codec::F32>&, const kernels::Product&,
                                       kernels::RowTiles&, Executor&);
DECANT_INSTANCE void kernels::multiply(const kernels::Packed<codec::BF16>&, const kernels::Product&,
                                       kernels::RowTiles&, Executor&);
DECANT_INSTANCE void kernels::multiply(const kernels::Packed<codec::F16>&, const kernels::Product&,
                                       kernels::RowTiles&, Executor&);

DECANT_INSTANCE void attention::attend(
    std::span<const attention::Sequence<kv::Contiguous<codec::F32>>>, const attention::Problem&,
    const attention::Causal&, const attention::Plain&, attention::Scratch&, Executor&);
DECANT_INSTANCE void attention::attend(
    std::span<const attention::Sequence<kv::Contiguous<codec::BF16>>>, const attention::Problem&,
    const attention::Causal&, const attention::Plain&, attention::Scratch&, Executor&);
DECANT_INSTANCE void attention::attend(
    std::span<const attention::Sequence<kv::Contiguous<codec::F16>>>, const attention::Problem&,
    const attention::Causal&, const attention::Plain&, attention::Scratch&, Executor&);

}  // namespace decant::inline v0
