// decant/kernels/detail/block_tile.hpp - the inner loop for weights in blocks.
//
// Rows are quantised to int8 too, and a block of 32 is eight steps of four products a lane; then
// its sum takes both scales and is added to the others in f32, in ascending order of block.
// Integers add exactly, so an output has the same bits on every machine with fused multiply-adds,
// whatever the rows beside it.
//
// Tile sizes. 6 rows by 2 panels take 12 integer sums, 12 in f32, and what is loaded for
// one step: 28 of 32 registers. 12 independent products cover a latency of 5 cycles on 2 ports.
//
// Source      Intel's description of vpdpbusd; GGUF for the blocks
// Tested by   tests/kernels/block_product_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/packed_blocks.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cstdint>

namespace decant::inline DECANT_ABI::kernels::detail {

inline constexpr int kBlockTilePanels = simd::kRegisters == 1 ? 2 : 1;

// Group g of the eight of a block, four weights of 16 outputs: integers shifted by Q::kZero.
DECANT_ALWAYS_INLINE simd::ByteLanes load_group(codec::Q8_0, const std::uint8_t* from, Index g) {
  return simd::load_bytes(from + g * 64);
}
DECANT_ALWAYS_INLINE simd::ByteLanes load_group(codec::Q4_0, const std::uint8_t* from, Index g) {
  const simd::ByteLanes bytes = simd::load_bytes(from + g % 4 * 64);
  return g < 4 ? simd::low_nibbles(bytes) : simd::high_nibbles(bytes);
}

// Sixteen scales.
DECANT_ALWAYS_INLINE simd::Lanes load_scales(const std::uint8_t* from) {
  return codec::F16::widen<0>(reinterpret_cast<const codec::F16::Cell*>(from));
}

// sums[r][p * 16 + lane] (+)= rows[r] · output, for P panels and `count` blocks, the first
// of them even. Integers are added exactly within a block; blocks are added in ascending order.
//
// Shape    rows [count]; sums [R][P * 16] at sums_stride
template <codec::BlockCodec Q, int R, int P>
void multiply_block_tile(const Int8Tile<R>* rows, const Array<const std::uint8_t*, P>& panels,
                         Index count, float* sums, Index sums_stride, Begin begin) {
  using Weights = PackedBlocks<Q>;
  Grid<simd::Lanes, R, P> at;
  load_sums<R, P>(at, sums, sums_stride, begin);
  for (Index block = 0; block < count; ++block) {
    const Int8Tile<R>& row_block = rows[block];
    Grid<simd::IntLanes, R, P> integers;
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) integers[r][p] = simd::broadcast_int(row_block.start[r]);
    }
    DECANT_UNROLL
    for (int g = 0; g < 8; ++g) {
      Array<simd::ByteLanes, P> groups;
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) {
        groups[p] = load_group(Q{}, panels[p] + Weights::integers_at(block), g);
      }
      DECANT_UNROLL
      for (int r = 0; r < R; ++r) {
        DECANT_UNROLL
        for (int p = 0; p < P; ++p)
          integers[r][p] = simd::dot_int8(integers[r][p], groups[p], row_block.four[g][r]);
      }
    }
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) {
      const simd::Lanes scales = load_scales(panels[p] + Weights::scales_at(block));
      DECANT_UNROLL
      for (int r = 0; r < R; ++r) {
        at[r][p] = simd::madd(simd::to_lanes(integers[r][p]) * simd::broadcast(row_block.scale[r]),
                              scales, at[r][p]);
      }
    }
  }
  store_sums<R, P>(at, sums, sums_stride);
}

// The same with rows in f32: every weight is widened, and every product rounded.
//
// Shape    rows [columns][R]
template <codec::BlockCodec Q, int R, int P>
void multiply_block_tile_full(const float* rows, const Array<const std::uint8_t*, P>& panels,
                              Index columns, float* sums, Index sums_stride, Begin begin) {
  using Weights = PackedBlocks<Q>;
  constexpr Index kGroup = 4;  // weights of what load_group gives
  Grid<simd::Lanes, R, P> at;
  load_sums<R, P>(at, sums, sums_stride, begin);
  for (Index first = 0; first < columns; first += kGroup) {
    const Index block = first / Weights::kWeights;
    Array<simd::Lanes, P> scales;
    Array<simd::ByteLanes, P> groups;
    for (int p = 0; p < P; ++p) {
      scales[p] = load_scales(panels[p] + Weights::scales_at(block));
      groups[p] = load_group(Q{}, panels[p] + Weights::integers_at(block),
                             first % Weights::kWeights / kGroup);
    }
    simd::unroll<kGroup>([&](auto i) {
      if (i >= columns - first) return;
      Array<simd::Lanes, P> weights;
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) {
        const simd::Lanes integers = simd::to_lanes(simd::byte_of<i>(groups[p]));
        weights[p] = (integers - simd::broadcast(static_cast<float>(Q::kZero))) * scales[p];
      }
      DECANT_UNROLL
      for (int r = 0; r < R; ++r) {
        const simd::Lanes element = simd::broadcast(rows[(first + i) * R + r]);
        DECANT_UNROLL
        for (int p = 0; p < P; ++p) at[r][p] = simd::madd(element, weights[p], at[r][p]);
      }
    });
  }
  store_sums<R, P>(at, sums, sums_stride);
}

}  // namespace decant::inline DECANT_ABI::kernels::detail
