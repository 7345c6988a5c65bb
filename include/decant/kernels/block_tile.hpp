// decant/kernels/block_tile.hpp - the inner loop for weights in blocks.
//
// Rows come in whole numbers too, and a block of 32 is eight steps of four products a lane; then
// its sum takes both scales and is added to the others in f32, in ascending order of block. Whole
// numbers add exactly, so an output is the same number on every machine that has fused
// multiply-adds, and whatever the rows beside it.
//
// Tile sizes. 6 rows by 2 panels take 12 sums in whole numbers, 12 in f32, and what is loaded for
// one step: 28 of 32 registers. 12 independent products cover a latency of 5 cycles on 2 ports.
//
// Depends on  core/int_lanes.hpp, kernels/packed_blocks.hpp, kernels/row_tiles.hpp
// Source      Intel's description of vpdpbusd; GGUF for the blocks
// Tested by   tests/kernels/block_product_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/int_lanes.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/packed_blocks.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/kernels/tile.hpp>

#include <algorithm>
#include <cstdint>

namespace decant::inline v0::kernels {

inline constexpr int kBlockTilePanels = kRegisters == 1 ? 2 : 1;

namespace detail {

// Groups [0, 8) of four numbers of 16 outputs, in whole numbers shifted by Q::kZero.
DECANT_ALWAYS_INLINE void load_groups(codec::Q8_0, const std::uint8_t* from, Index half,
                                      ByteLanes (&groups)[4]) {
  for (int g = 0; g < 4; ++g) groups[g] = load_bytes(from + (half * 4 + g) * 64);
}
DECANT_ALWAYS_INLINE void load_groups(codec::Q4_0, const std::uint8_t* from, Index half,
                                      ByteLanes (&groups)[4]) {
  for (int g = 0; g < 4; ++g) {
    const ByteLanes bytes = load_bytes(from + g * 64);
    groups[g] = half == 0 ? low_nibbles(bytes) : high_nibbles(bytes);
  }
}

// The scales of block `which` of a pair.
DECANT_ALWAYS_INLINE Lanes scales_of(const std::uint8_t* pair, Index which) {
  return codec::F16::widen<0>(reinterpret_cast<const Eigen::half*>(pair) + which * kLanes);
}

}  // namespace detail

// sums[r][p * 16 + lane] (+)= rows[r] · output, for P panels and `count` blocks from a pair on.
// Whole numbers are added exactly, block by block; blocks are added in ascending order.
//
// Shape    rows [count]; sums [R][P * 16] at sums_stride
template <codec::BlockCodec Q, int R, int P>
void multiply_blocks(const RowBlock<R>* rows, const std::uint8_t* const (&pairs)[P], Index count,
                     float* sums, Index sums_stride, Begin begin) {
  using Weights = PackedBlocks<Q>;
  Lanes at[R][P];
  detail::load_sums(at, sums, sums_stride, begin);
  for (Index block = 0; block < count; ++block) {
    const RowBlock<R>& numbers = rows[block];
    const Index offset = block / 2 * Weights::kPairBytes;
    const Index start = offset + 4 * kLanes + block % 2 * Weights::kBlockBytes;
    IntLanes whole[R][P];
    DECANT_UNROLL
    for (int r = 0; r < R; ++r) {
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) whole[r][p] = broadcast_int(numbers.start[r]);
    }
    DECANT_UNROLL
    for (int half = 0; half < 2; ++half) {
      ByteLanes groups[P][4];
      DECANT_UNROLL
      for (int p = 0; p < P; ++p) detail::load_groups(Q{}, pairs[p] + start, half, groups[p]);
      DECANT_UNROLL
      for (int g = 0; g < 4; ++g) {
        DECANT_UNROLL
        for (int r = 0; r < R; ++r) {
          DECANT_UNROLL
          for (int p = 0; p < P; ++p) {
            whole[r][p] = dot(whole[r][p], groups[p][g], numbers.four[half * 4 + g][r]);
          }
        }
      }
    }
    DECANT_UNROLL
    for (int p = 0; p < P; ++p) {
      const Lanes scales = detail::scales_of(pairs[p] + offset, block % 2);
      DECANT_UNROLL
      for (int r = 0; r < R; ++r) {
        at[r][p] = madd(to_lanes(whole[r][p]) * broadcast(numbers.scale[r]), scales, at[r][p]);
      }
    }
  }
  detail::store_sums(at, sums, sums_stride);
}

// The same with rows in f32: every weight is widened, and every product rounded.
//
// Shape    rows [columns][R]
template <codec::BlockCodec Q, int R, int P>
void multiply_blocks_full(const float* rows, const std::uint8_t* const (&pairs)[P], Index columns,
                          float* sums, Index sums_stride, Begin begin) {
  using Weights = PackedBlocks<Q>;
  Lanes at[R][P];
  detail::load_sums(at, sums, sums_stride, begin);
  for (Index column = 0; column < columns; column += Weights::kNumbers) {
    const Index block = column / Weights::kNumbers;
    const Index offset = block / 2 * Weights::kPairBytes;
    const Index start = offset + 4 * kLanes + block % 2 * Weights::kBlockBytes;
    Lanes scales[P];
    for (int p = 0; p < P; ++p) scales[p] = detail::scales_of(pairs[p] + offset, block % 2);
    for (Index group = 0; group < 8 && column + 4 * group < columns; ++group) {
      Lanes weights[P][4];
      for (int p = 0; p < P; ++p) {
        ByteLanes groups[4];
        detail::load_groups(Q{}, pairs[p] + start, group / 4, groups);
        decant::detail::unroll<4>([&](auto i) {
          const Lanes whole = to_lanes(byte_of<i>(groups[group % 4]));
          weights[p][i] = (whole - broadcast(static_cast<float>(Q::kZero))) * scales[p];
        });
      }
      const Index first = column + 4 * group;
      for (Index i = 0; i < std::min<Index>(4, columns - first); ++i) {
        DECANT_UNROLL
        for (int r = 0; r < R; ++r) {
          const Lanes number = broadcast(rows[(first + i) * R + r]);
          DECANT_UNROLL
          for (int p = 0; p < P; ++p) at[r][p] = madd(number, weights[p][i], at[r][p]);
        }
      }
    }
  }
  detail::store_sums(at, sums, sums_stride);
}

}  // namespace decant::inline v0::kernels
