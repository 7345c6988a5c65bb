// decant/kernels/detail/row_tiles.hpp - defines kernels/row_tiles.hpp: rows copied, rounded to bf16
// and quantised to int8.
#pragma once

#include <decant/codec/scale.hpp>
#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/simd/bf16_lanes.hpp>
#include <decant/simd/int8_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace decant::inline DECANT_ABI::kernels {

namespace detail {

// Quantises one row's 32 elements from `from` on, of which only `count` exist; the rest are zero.
// If an element is not finite, the scale is NaN.
//
// Units    zero: what the weights' integers are shifted by
template <int R>
void quantise(const float* from, Index count, std::int32_t zero, Int8Tile<R>& to, int row) {
  const simd::Lanes low = simd::load_first(from, std::min(count, kLanes));
  const simd::Lanes high =
      count > kLanes ? simd::load_first(from + kLanes, count - kLanes) : simd::broadcast(0.0f);
  const float largest = simd::reduce_max(simd::max(simd::abs(low), simd::abs(high)));
  const float scale = codec::scale_for(largest, 127.0f);
  const simd::Lanes inverse = simd::broadcast(scale == 0.0f ? 0.0f : 127.0f / largest);
  const simd::Lanes int_low = simd::round_product(low, inverse);
  const simd::Lanes int_high = simd::round_product(high, inverse);
  const float sum = simd::reduce_add(int_low + int_high);  // exact, or NaN
  std::int8_t bytes[32];
  simd::store_bytes(bytes, int_low);
  simd::store_bytes(bytes + kLanes, int_high);
  for (int j = 0; j < 8; ++j) std::memcpy(&to.four[j][row], bytes + 4 * j, 4);
  to.start[row] = std::isnan(sum) ? 0 : -zero * static_cast<std::int32_t>(sum);
  to.scale[row] = std::isnan(sum) ? sum : scale;
}

// Units    bytes of a row of int8
inline Index int8_bytes(Index columns) {
  return ceil_div(columns, 32) * static_cast<Index>(sizeof(Int8Tile<1>));
}

}  // namespace detail

DECANT_INLINE RowTiles::RowTiles(Index rows, Index columns, std::pmr::memory_resource& memory)
    : memory_(checked_product(rows, std::max(checked_product(columns, Index{sizeof(float)}),
                                             detail::int8_bytes(columns))),
              memory) {}

DECANT_INLINE void RowTiles::make_room(Index rows, Index row_bytes) {
  expects(checked_product(rows, row_bytes) <= memory_.size(), "kernels::RowTiles: ", rows,
          " rows of ", row_bytes, " bytes, with room for ", memory_.size());
  row_bytes_ = row_bytes;
}

// fill(integral_constant<rows>, first row, where to) for every tile.
template <class F>
void RowTiles::for_tiles(Index count, Executor& executor, F&& fill) {
  base_ = memory_.data();
  executor.parallel_for(ceil_div(count, detail::kTileRows), [&](Index tile, Index) {
    const Index row = tile * detail::kTileRows;
    detail::with_rows(std::min<Index>(detail::kTileRows, count - row), [&](auto together) {
      fill(together, row, memory_.data() + row * row_bytes_);
    });
  });
}

DECANT_INLINE void RowTiles::assign(const float* rows, Index stride, Index count, Index columns,
                                    Executor& executor) {
  if (count == 1) {
    base_ = reinterpret_cast<const std::byte*>(rows);
    return;
  }
  make_room(count, columns * Index{sizeof(float)});
  for_tiles(count, executor, [&](Index together, Index row, std::byte* to) {
    auto* element = reinterpret_cast<float*>(to);
    for (Index column = 0; column < columns; ++column) {
      for (Index r = 0; r < together; ++r) *element++ = rows[(row + r) * stride + column];
    }
  });
}

DECANT_INLINE void RowTiles::assign_bf16(const float* rows, Index stride, Index count,
                                         Index columns, Executor& executor) {
  make_room(count, ceil_div(columns, 2) * Index{sizeof(std::uint32_t)});
  for_tiles(count, executor, [&](Index together, Index row, std::byte* to) {
    auto* word = reinterpret_cast<std::uint32_t*>(to);
    simd::for_lanes(columns, [&](Index column, Index elements) {
      for (Index r = 0; r < together; ++r) {
        std::uint32_t words[kLanes / 2];
        simd::store_bf16(words, simd::load_first(rows + (row + r) * stride + column, elements));
        for (Index at = 0; at < ceil_div(elements, 2); ++at) {
          word[(column / 2 + at) * together + r] = words[at];
        }
      }
    });
  });
}

DECANT_INLINE void RowTiles::assign_int8(const float* rows, Index stride, Index count,
                                         Index columns, std::int32_t zero, Executor& executor) {
  make_room(count, detail::int8_bytes(columns));
  for_tiles(count, executor, [&](auto together, Index row, std::byte* to) {
    auto* block = reinterpret_cast<detail::Int8Tile<together>*>(to);
    for (Index column = 0; column < columns; column += 32, ++block) {
      for (int r = 0; r < together; ++r) {
        detail::quantise(rows + (row + r) * stride + column, std::min<Index>(32, columns - column),
                         zero, *block, r);
      }
    }
  });
}

}  // namespace decant::inline DECANT_ABI::kernels
