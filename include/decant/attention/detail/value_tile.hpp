// decant/attention/detail/value_tile.hpp - R rows of weights times the values of consecutive
// tokens.
//
// Lanes run over the dimensions of a value, and tokens are added in ascending order, each into the
// one accumulator of its dimension; a row's sum is the same alone or with others.
//
// Tested by   tests/attention/attend_test.cpp
#pragma once

#include <decant/attention/problem.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kv/cells.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>

namespace decant::inline DECANT_ABI::attention::detail {

// The weights of R rows for the tokens of one tile, and where their sums stand.
//
// Shape    weights [R][64]; sums [R][lanes]
struct ValueSums {
  const float* weights = nullptr;
  float* sums = nullptr;
  Index lanes = 0;  // value_dim rounded up to runs of 16 * kPack
};

// The values of D runs of 16 dimensions of one token.
//
// Shape    cells hold the run of `dim`, value I of their interleave; scales are those of the
//          token's panel, [groups][16], if the codec has groups
template <codec::Codec C, int I, int D>
DECANT_ALWAYS_INLINE void widen_values(Array<simd::Lanes, D>& values, const typename C::Cell* cells,
                                       [[maybe_unused]] const float* scales,
                                       [[maybe_unused]] Index dim, [[maybe_unused]] Index token) {
  static_assert(C::kPack == 1 || D == 1 || D % 2 == 0, "runs come two by two, or one by one");
  simd::unroll<D>([&](auto d) {
    if constexpr (C::kPack == 1) {
      values[d] = C::template widen<I>(cells + d * kLanes * C::kInterleave);
    } else {
      const typename C::Cell* at = cells + d / 2 * kLanes;
      const bool second = D % 2 == 0 ? d % 2 == 1 : dim / kLanes % 2 == 1;
      values[d] = second ? C::template widen<1>(at) : C::template widen<0>(at);
    }
    if constexpr (C::kGroup > 0) {
      const Index group = (dim + d * kLanes) / C::kGroup;
      values[d] = values[d] * simd::broadcast(scales[group * kLanes + token % kLanes]);
    }
  });
}

// Adds Count tokens, from `token` on, that lie in one group of C::kInterleave from value First on.
template <codec::Codec C, int First, int Count, int R, int D>
DECANT_ALWAYS_INLINE void add_tokens(Grid<simd::Lanes, R, D>& at, const ValueSums& work,
                                     const typename C::Cell* group, const float* scales, Index dim,
                                     Index token) {
  simd::unroll<Count>([&](auto i) {
    Array<simd::Lanes, D> values;
    widen_values<C, First + i, D>(values, group, scales, dim, token + i);
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      const simd::Lanes weight = simd::broadcast(work.weights[r * kTileKeys + token + i]);
      DECANT_UNROLL
      for (int d = 0; d < D; ++d) at[r][d] = simd::madd(weight, values[d], at[r][d]);
    }
  });
}

// sums[r] += sum over tokens of weights[r][token] * value(token), for D * 16 dimensions from `dim`.
//
// Shape    panels[token / 16] is the value panel of a token and scales[token / 16] has its scales;
//          tokens lie in [0, 64)
template <codec::Codec C, int R, int D, class Ahead>
void add_values(const ValueSums& work, const typename C::Cell* const* panels,
                const float* const* scales, Range tokens, Index dim, const Ahead& ahead) {
  constexpr Index kStep = C::kInterleave;
  static_assert(kStep == 1 || kStep == 2, "interleaves of 1 and 2 are written");
  const Index row = work.lanes / C::kPack * kStep;  // cells of kStep tokens
  Grid<simd::Lanes, R, D> at;
  DECANT_UNROLL
  for (int r = 0; r < R; ++r) {
    DECANT_UNROLL
    for (int d = 0; d < D; ++d)
      at[r][d] = simd::load(work.sums + r * work.lanes + dim + d * kLanes);
  }
  for (Index token = tokens.begin; token < tokens.end;) {
    const Index panel = token / kv::kPanelTokens;
    const Index end = std::min<Index>(tokens.end, (panel + 1) * kv::kPanelTokens);
    const Index slots = token % kv::kPanelTokens / kStep;
    const typename C::Cell* group =
        panels[panel] + slots * row + dim / (kLanes * C::kPack) * kLanes * kStep;
    if constexpr (kStep == 2) {
      if (token % 2 == 1) {
        add_tokens<C, 1, 1, R, D>(at, work, group, scales[panel], dim, token);
        token += 1;
        group += row;
      }
    }
    for (; token + kStep <= end; token += kStep, group += row) {
      DECANT_UNROLL
      for (int d = 0; d < D; ++d) ahead(group + d * kLanes * kStep / C::kPack, token, d);
      add_tokens<C, 0, kStep, R, D>(at, work, group, scales[panel], dim, token);
    }
    if constexpr (kStep == 2) {
      if (token < end) {
        add_tokens<C, 0, 1, R, D>(at, work, group, scales[panel], dim, token);
        token += 1;
      }
    }
  }
  DECANT_UNROLL
  for (int r = 0; r < R; ++r) {
    DECANT_UNROLL
    for (int d = 0; d < D; ++d)
      simd::store(work.sums + r * work.lanes + dim + d * kLanes, at[r][d]);
  }
}

}  // namespace decant::inline DECANT_ABI::attention::detail
