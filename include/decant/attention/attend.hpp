// decant/attention/attend.hpp - softmax(scale q·k) v over stores, for prefill and decode alike.
//
// Work is cut into (sequence, key head, tile of rows) and, if that leaves workers idle, a single
// row's context into segments of 1024 keys. Segments always merge in ascending order, whichever
// worker computed them, so the cut cannot change a bit.
//
//   for each row and query head h:
//     s[j] = score(scale * q[h] · k[j][h / group])       for the visible j
//     out[h] = sum over j of softmax(s)[j] * v[j][h / group],  zeros if nothing is visible
//
// If keys are integers, scale * q is quantised to integers first, with a scale for each row and
// head (detail/query_tile.hpp).
//
// A learned sink of a head is one more score in its softmax, and adds no value.
//
// Source      Dao et al. 2022, arXiv:2205.14135; Ainslie et al. 2023, arXiv:2305.13245 (groups)
// Tested by   tests/attention/{attend,sink}_test.cpp, against tests/reference/attention.hpp
#pragma once

#include <decant/attention/mask.hpp>
#include <decant/attention/problem.hpp>
#include <decant/attention/score.hpp>
#include <decant/core/executor.hpp>
#include <decant/kv/store.hpp>

#include <span>

namespace decant::inline DECANT_ABI::attention {

// Attention of every row of every sequence to the keys that `mask` lets it see.
//
// Precondition: keys and values have been put for every visible position; they need not be
// published.
//
// Errors   std::invalid_argument when the query heads are no multiple of a store's heads, a layer
//          does not exist, a store has no room for a visible position or holds it no more, or the
//          scratch was made for another problem
// Cost     rows * heads * visible keys * (key_dim + value_dim) multiply-adds; allocates nothing
//          for as many sequences as the scratch was made for
// Threads  stores are only read; scratch and out belong to the call
template <kv::Store S, Mask M = Causal, Score F = Plain>
void attend(std::span<const Sequence<S>> sequences, const Problem& problem, const M& mask,
            const F& transform, Scratch& scratch, Executor& executor);

}  // namespace decant::inline DECANT_ABI::attention

#if !defined(DECANT_COMPILED)
#include <decant/attention/detail/attend.hpp>
#endif
