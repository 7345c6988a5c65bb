// decant/kernels/row_tiles.hpp - rows of numbers in the order in which a product reads them.
//
// A tile product takes number k of up to six rows, then number k + 1. Laid out like that, the rows
// of a tile are one run of memory; as a user has them they are six, often a power of two apart,
// which compete for the same sets of a cache and leave its prefetcher behind. Weights in blocks
// want rows in whole numbers: every 32 numbers of a row get a scale of their own; weights in bf16
// may want rows in bf16, two numbers a word.
//
// Source      Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"
// Tested by   tests/kernels/row_tiles_test.cpp
#pragma once

#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/tile.hpp>
#include <decant/simd/bf16_lanes.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace decant::inline v0::kernels {

// 32 numbers of R rows: number k of row r is scale[r] times signed byte k % 4 of four[k / 4][r].
// `start` is what the sums of a product begin at, so that weights may be unsigned.
template <int R>
struct Int8Tile {
  static constexpr Index kNumbers = 32;

  std::int32_t four[kNumbers / 4][R];
  std::int32_t start[R];
  float scale[R];
};

namespace detail {

// One row's 32 numbers from `from` on, of which only `count` are there; the rest are zero. Numbers
// of which one is none become none, all of them.
//
// Units    zero: what the weights' whole numbers are shifted by
template <int R>
void quantise(const float* from, Index count, std::int32_t zero, Int8Tile<R>& to, int row) {
  const simd::Lanes low = simd::load_first(from, std::min(count, kLanes));
  const simd::Lanes high =
      count > kLanes ? simd::load_first(from + kLanes, count - kLanes) : simd::broadcast(0.0f);
  const float largest = simd::reduce_max(simd::max(simd::abs(low), simd::abs(high)));
  const bool zero_row = largest < 127 * std::numeric_limits<float>::min();  // or 1 / scale is not
  const simd::Lanes inverse = simd::broadcast(zero_row ? 0.0f : 127.0f / largest);
  const simd::Lanes int_low = simd::round_product(low, inverse);
  const simd::Lanes int_high = simd::round_product(high, inverse);
  const float sum = simd::reduce_add(int_low + int_high);  // exact, or no number
  std::int8_t bytes[32];
  simd::store_bytes(bytes, int_low);
  simd::store_bytes(bytes + kLanes, int_high);
  for (int j = 0; j < 8; ++j) std::memcpy(&to.four[j][row], bytes + 4 * j, 4);
  to.start[row] = std::isnan(sum) ? 0 : -zero * static_cast<std::int32_t>(sum);
  to.scale[row] = std::isnan(sum) ? sum : zero_row ? 0.0f : largest / 127.0f;
}

}  // namespace detail

// Room for the rows of one product at a time.
//
// Shape    tile t holds rows [6 t, 6 t + r), where r = 6 but in the last tile: numbers as
//          [columns][r], pairs as [ceil(columns / 2)][r], or blocks as [ceil(columns / 32)] of
//          Int8Tile<r>
// Errors   std::invalid_argument (extents), std::bad_alloc from the constructor
// Threads  one product at a time
class RowTiles {
 public:
  // The most rows, and the widest, that will be asked for.
  RowTiles(Index rows, Index columns)
      : memory_(checked_product(
            rows, std::max(checked_product(columns, kNumberBytes), block_bytes(columns)))) {}

  // Takes rows that are `stride` apart: a single one where it lies, copies of several.
  //
  // Errors   std::invalid_argument when they are more than there is room for; nothing changed then
  void assign(const float* rows, Index stride, Index count, Index columns, Executor& executor) {
    if (count == 1) {
      base_ = reinterpret_cast<const std::byte*>(rows);
      return;
    }
    make_room(count, columns * kNumberBytes);
    for_tiles(count, executor, [&](auto together, Index row, std::byte* to) {
      auto* number = reinterpret_cast<float*>(to);
      for (Index column = 0; column < columns; ++column) {
        for (Index r = 0; r < together; ++r) *number++ = rows[(row + r) * stride + column];
      }
    });
  }

  // The same in pairs of bf16 numbers; an odd one out is paired with zero.
  void assign_bf16(const float* rows, Index stride, Index count, Index columns,
                   Executor& executor) {
    make_room(count, ceil_div(columns, 2) * kNumberBytes);
    for_tiles(count, executor, [&](auto together, Index row, std::byte* to) {
      auto* pair = reinterpret_cast<std::uint32_t*>(to);
      simd::for_lanes(columns, [&](Index column, Index numbers) {
        for (Index r = 0; r < together; ++r) {
          std::uint32_t pairs[kLanes / 2];
          simd::store_bf16(pairs, simd::load_first(rows + (row + r) * stride + column, numbers));
          for (Index at = 0; at < ceil_div(numbers, 2); ++at) {
            pair[(column / 2 + at) * together + r] = pairs[at];
          }
        }
      });
    });
  }

  // The same in blocks of whole numbers, for weights whose own are shifted by `zero`.
  void assign_int8(const float* rows, Index stride, Index count, Index columns, std::int32_t zero,
                   Executor& executor) {
    make_room(count, block_bytes(columns));
    for_tiles(count, executor, [&](auto together, Index row, std::byte* to) {
      auto* block = reinterpret_cast<Int8Tile<together>*>(to);
      for (Index column = 0; column < columns; column += 32, ++block) {
        for (int r = 0; r < together; ++r) {
          detail::quantise(rows + (row + r) * stride + column,
                           std::min<Index>(32, columns - column), zero, *block, r);
        }
      }
    });
  }

  // The tile of R rows from `row` on, a multiple of 6: numbers from `column` on, and pairs and
  // blocks from the one that holds `column` on.
  template <int R>
  const float* numbers(Index row, Index column) const noexcept {
    return reinterpret_cast<const float*>(base_ + row * row_bytes_) + column * R;
  }
  template <int R>
  const std::uint32_t* pairs(Index row, Index column) const noexcept {
    return reinterpret_cast<const std::uint32_t*>(base_ + row * row_bytes_) + column / 2 * R;
  }
  template <int R>
  const Int8Tile<R>* blocks(Index row, Index column) const noexcept {
    return reinterpret_cast<const Int8Tile<R>*>(base_ + row * row_bytes_) + column / 32;
  }

 private:
  static constexpr Index kNumberBytes = sizeof(float);

  static Index block_bytes(Index columns) {
    return ceil_div(columns, 32) * static_cast<Index>(sizeof(Int8Tile<1>));
  }

  void make_room(Index rows, Index row_bytes) {
    expects(checked_product(rows, row_bytes) <= memory_.size(), "kernels::RowTiles: ", rows,
            " rows of ", row_bytes, " bytes, with room for ", memory_.size());
    row_bytes_ = row_bytes;
  }

  // fill(integral_constant<rows>, first row, where to) for every tile.
  template <class F>
  void for_tiles(Index count, Executor& executor, F&& fill) {
    base_ = memory_.data();
    executor.parallel_for(ceil_div(count, kTileRows), [&](Index tile, Index) {
      const Index row = tile * kTileRows;
      with_rows(std::min<Index>(kTileRows, count - row),
                [&](auto together) { fill(together, row, memory_.data() + row * row_bytes_); });
    });
  }

  Buffer<std::byte> memory_;
  const std::byte* base_ = nullptr;
  Index row_bytes_ = 0;
};

}  // namespace decant::inline v0::kernels
