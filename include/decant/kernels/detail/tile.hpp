// decant/kernels/detail/tile.hpp - the one inner loop: R rows times P panels of 16 outputs.
//
// A panel holds 16 outputs by `columns` weights with the outputs as lanes. Every output of every
// row has an accumulator lane of its own that adds products in ascending order of column, so an
// output has the same bits whether its row is computed alone or with others. Products with
// weights and scores of queries with keys both run through here.
//
// Tile sizes. With 32 vector registers of 16 floats, 6 rows by 4 panels take 24 accumulators, 4
// panel loads and 1 broadcast, 29 registers; 24 independent multiply-adds cover a latency of 4
// cycles on 2 ports three times over and need 10 loads in 12 cycles. With 16 registers of 8
// floats a panel is two registers, and 6 rows by 1 panel take 12 + 2 + 1. One row is bound by
// reading panels: 8 at a time are 8 streams of memory.
//
// Source      Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"
// Tested by   tests/kernels/{product,bf16_product}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/codec/detail/widen.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/bf16_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <cstdint>
#include <type_traits>

namespace decant::inline DECANT_ABI::kernels::detail {

inline constexpr int kTileRows = 6;
inline constexpr int kTilePanels = simd::kRegisters == 1 ? 4 : 1;
inline constexpr int kGroupPanels = 4;  // panels that go to one thread together
inline constexpr int kRowPanels = simd::kRegisters == 1 ? 8 : 4;

// What a tile prefetches while it multiplies, given the cells that it reads next.
//
//   StayHere   nothing: the panels are in a cache
//   SamePlace  the same place, `distance` bytes further on: a row that reads each panel once
//   NextPart   a share of some other memory, `stride` bytes further with every column or token:
//              rows that share a tile fetch the next one together
struct StayHere {
  DECANT_ALWAYS_INLINE void operator()(const void*, Index, int) const noexcept {}
  DECANT_ALWAYS_INLINE void run(Index) const noexcept {}
};
struct SamePlace {
  Index distance = 0;
  DECANT_ALWAYS_INLINE void operator()(const void* at, Index, int) const noexcept {
    simd::prefetch(at, distance);
  }
};
struct NextPart {
  const void* from = nullptr;
  Index distance = 0;
  Index stride = 0;
  DECANT_ALWAYS_INLINE void operator()(const void*, Index step, int panel) const noexcept {
    if (panel == 0) simd::prefetch(from, distance + step * stride);
  }
  // All of one stride.
  DECANT_ALWAYS_INLINE void run(Index step) const noexcept {
    for (Index at = 0; at < stride; at += kLine)
      simd::prefetch(from, distance + step * stride + at);
  }
  static constexpr Index kLine = 64;  // bytes that memory gives at once
};

// Whether sums begin at zero or at what stands in memory.
enum class Begin { zero, sums };

// The sums of a tile between memory and registers.
template <int R, int P>
DECANT_ALWAYS_INLINE void load_sums(Grid<simd::Lanes, R, P>& at, const float* sums, Index stride,
                                    Begin begin) {
  DECANT_UNROLL
  for (int r = 0; r < R; ++r) {
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) {
      at[r][p] =
          begin == Begin::zero ? simd::broadcast(0.0f) : simd::load(sums + r * stride + p * kLanes);
    }
  }
}
template <int R, int P>
DECANT_ALWAYS_INLINE void store_sums(const Grid<simd::Lanes, R, P>& at, float* sums, Index stride) {
  DECANT_UNROLL
  for (int r = 0; r < R; ++r) {
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) simd::store(sums + r * stride + p * kLanes, at[r][p]);
  }
}

// Adds Count <= C::kInterleave columns, from column k on, to the sums held in registers.
template <codec::Codec C, int Count, int R, int P>
DECANT_ALWAYS_INLINE void add_columns(Grid<simd::Lanes, R, P>& at, const float* rows,
                                      const Array<const typename C::Cell*, P>& panels, Index k) {
  // If sums leave no registers for all values of the panels, each is widened when its turn comes.
  constexpr bool kCrowded = simd::kRegisters * P * (R + C::kInterleave) >= 32;
  simd::unroll<Count>([&](auto i) {
    Array<simd::Lanes, P> weights;
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) {
      const typename C::Cell* cells = panels[p] + k * kLanes;
      weights[p] = C::template widen<i>(kCrowded ? simd::opaque(cells) : cells);
    }
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      const simd::Lanes element = simd::broadcast(rows[(k + i) * R + r]);
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) at[r][p] = simd::madd(element, weights[p], at[r][p]);
    }
  });
}

// sums[r][p * 16 + lane] (+)= sum over k < columns of rows[k][r] * panels[p], value k of `lane`.
//
// Shape    rows [columns][R], as kernels/row_tiles.hpp lays them out; each panel is
//          [ceil(columns / i)][16][i], i = kInterleave values; sums [R][P * 16] at sums_stride
// Cost     R * P * 16 * columns multiply-adds; reads no element of a row beyond `columns`
template <codec::Codec C, int R, int P, class Ahead = StayHere>
void multiply_tile(const float* rows, const Array<const typename C::Cell*, P>& panels,
                   Index columns, float* sums, Index sums_stride, Begin begin,
                   const Ahead& ahead = {}) {
  static_assert(C::kPack == 1 && C::kGroup == 0, "others are multiplied as integers");
  constexpr int kStep = C::kInterleave;
  static_assert(kStep == 1 || kStep == 2, "steps of 1 and 2 columns are written");
  Grid<simd::Lanes, R, P> at;
  load_sums<R, P>(at, sums, sums_stride, begin);
  Index k = 0;
  for (; k + kStep <= columns; k += kStep) {
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) ahead(panels[p] + k * kLanes, k, p);
    add_columns<C, kStep, R, P>(at, rows, panels, k);
  }
  if constexpr (kStep == 2) {
    if (k < columns) add_columns<C, 1, R, P>(at, rows, panels, k);
  }
  store_sums<R, P>(at, sums, sums_stride);
}

// The same with rows and panels in bf16, two values a word.
//
// Shape    rows [ceil(columns / 2)][R]; each panel [ceil(columns / 2)][16] words
template <int R, int P>
void multiply_bf16_tile(const std::uint32_t* rows, const Array<const codec::BF16::Cell*, P>& panels,
                        Index columns, float* sums, Index sums_stride, Begin begin) {
  Grid<simd::Lanes, R, P> at;
  load_sums<R, P>(at, sums, sums_stride, begin);
  for (Index word = 0; word < ceil_div(columns, 2); ++word) {
    Array<simd::Lanes, P> weights;
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) weights[p] = simd::load_words(panels[p] + word * 2 * kLanes);
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) {
        at[r][p] = simd::dot_bf16(weights[p], rows[word * R + r], at[r][p]);
      }
    }
  }
  store_sums<R, P>(at, sums, sums_stride);
}

// f(integral_constant<rows>) for rows in [1, kTileRows]: a run-time row count made static.
template <class F>
DECANT_ALWAYS_INLINE void with_rows(Index rows, F&& f) {
  simd::unroll<kTileRows>([&](auto below) {
    if (rows == below + 1) f(std::integral_constant<int, below + 1>{});
  });
}

}  // namespace decant::inline DECANT_ABI::kernels::detail
