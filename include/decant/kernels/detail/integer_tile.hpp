// decant/kernels/detail/integer_tile.hpp - R rows of int16 times P panels of an integer codec.
//
// One instruction multiplies two columns of sixteen outputs and adds them to sums of 32 bits, and
// nothing is converted but the sums. These are exact, in whichever order, and rounded when they
// become f32 and meet a scale.
//
// Tested by   tests/kernels/integer_tile_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cstdint>

namespace decant::inline DECANT_ABI::kernels::detail {

// Adds columns k and k + 1, of which the panels' cells are given, to the sums.
template <codec::IntegerCodec C, int R, int P>
DECANT_ALWAYS_INLINE void add_two_columns(Grid<simd::IntLanes, R, P>& at, const std::int32_t* row,
                                          const Array<const typename C::Cell*, P>& cells) {
  Array<simd::IntLanes, P> halves;
  DECANT_UNROLL
  for (int p = 0; p < P; ++p) halves[p] = C::widen_int16(cells[p]);
  DECANT_UNROLL
  for (int r = 0; r < R; ++r) {
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) at[r][p] = simd::dot_int16(at[r][p], halves[p], row[r]);
  }
}

// sums[r][p * 16 + lane] = row_scales[r] * sum over k < columns of rows[k][r] * panels[p], value k
// of `lane`; where the codec has groups, that of each group times its scale, in ascending order.
//
// Shape    rows [ceil(columns / 2)][R] words of two; panels and scales as for
//          multiply_tile(). After an odd last column the next run of cells is read too, whatever it
//          holds, and the elements of rows that it meets must be zero
// Cost     R * P * 16 * columns multiply-adds
template <codec::IntegerCodec C, int R, int P, class Ahead = StayHere>
void multiply_integer_tile(const std::int32_t* rows, const float* row_scales,
                           const Array<const typename C::Cell*, P>& panels, Index columns,
                           float* sums, Index sums_stride, const Ahead& ahead = {},
                           const float* const* scales = nullptr) {
  const Index group = C::kGroup > 0 ? C::kGroup : columns;
  for (Index begin = 0; begin < columns; begin += group) {
    const Index end = std::min(columns, begin + group);
    Grid<simd::IntLanes, R, P> at;
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) at[r][p] = simd::broadcast_int(0);
    }
    for (Index k = begin; k < end; k += 2) {
      Array<const typename C::Cell*, P> cells;
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) {
        cells[p] = panels[p] + k * kLanes / C::kPack;
        ahead(cells[p], k, p);
      }
      add_two_columns<C, R, P>(at, rows + k / 2 * R, cells);
    }
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) {
        float* to = sums + r * sums_stride + p * kLanes;
        const simd::Lanes sum = simd::to_lanes(at[r][p]) * simd::broadcast(row_scales[r]);
        if constexpr (C::kGroup > 0) {
          const simd::Lanes before = begin == 0 ? simd::broadcast(0.0f) : simd::load(to);
          simd::store(to,
                      simd::madd(sum, simd::load(scales[p] + begin / C::kGroup * kLanes), before));
        } else {
          simd::store(to, sum);
        }
      }
    }
  }
}

}  // namespace decant::inline DECANT_ABI::kernels::detail
