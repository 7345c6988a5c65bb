// decant/attention/query_tile.hpp - the queries of a block, laid out as products with keys want
// them.
//
// Keys in whole numbers meet queries in whole numbers, of 16 bits where sums over a key leave room
// for that (int8 keys of up to 512 numbers, int4 of any) and of fewer elsewhere. A query of 16 bits
// with a scale of its own is off by 1/65534 of its largest number at most, which is nothing beside
// keys of 8 bits, and the sums are exact.
//
// Tested by   tests/attention/query_tile_test.cpp
#pragma once

#include <decant/attention/key_tile.hpp>
#include <decant/attention/problem.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace decant::inline v0::attention::detail {

// The largest whole number of a query, such that no sum with keys of whole numbers leaves 32 bits.
template <codec::IntegerCodec K>
constexpr Index largest_of_query(Index key_dim) noexcept {
  constexpr Index kSum = std::numeric_limits<std::int32_t>::max();
  const Index numbers = K::kGroup > 0 ? std::min<Index>(K::kGroup, key_dim) : key_dim;
  return std::clamp<Index>(kSum / (128 * std::max<Index>(1, numbers)), 1, 32767);
}

// Row r of a tile of `rows`, in pairs of whole numbers up to `largest`; an odd one out is paired
// with zero. Returns what they are multiples of, which is no number where one of them is none.
inline float quantise_query(const float* row, Index count, Index largest, std::int32_t* tile,
                            Index rows, Index r) {
  simd::Lanes top = simd::broadcast(0.0f);
  simd::Lanes odd = simd::broadcast(0.0f);  // stays zero while there are only numbers
  simd::for_lanes(count, [&](Index at, Index numbers) {
    const simd::Lanes part = simd::load_first(row + at, numbers);
    top = simd::max(top, simd::abs(part));
    odd = simd::madd(part, simd::broadcast(0.0f), odd);
  });
  const bool numbers = simd::reduce_add(odd) == 0.0f;
  const float size = numbers ? simd::reduce_max(top) : 0.0f;
  const auto most = static_cast<float>(largest);
  const float scale = size / most;
  const bool zero = scale < std::numeric_limits<float>::min();  // or 1 / scale is not finite
  const float inverse = zero ? 0.0f : most / size;
  simd::for_lanes(count, [&](Index at, Index some) {
    alignas(64) float part[kLanes];
    std::int32_t whole[kLanes];
    simd::store(part, simd::load_first(row + at, some));
    for (Index n = 0; n < kLanes; ++n) {
      const float multiple = std::clamp(part[n] * inverse, -most, most);  // in any rounding mode
      whole[n] = numbers ? static_cast<std::int32_t>(std::nearbyint(multiple)) : 0;
    }
    for (Index n = 0; n < some; n += 2) {
      tile[(at + n) / 2 * rows + r] = simd::pack_int16(whole[n], whole[n + 1]);
    }
  });
  if (!numbers) return std::numeric_limits<float>::quiet_NaN();
  return zero ? 0.0f : scale;
}

// The block's queries, scaled, as the tiles of kernels/row_tiles.hpp: in f32, or in whole numbers
// where keys are.
template <codec::Codec K>
void gather(const float* queries, const Problem& problem, const QueryTile& block,
            const Scratch::Worker& worker) {
  const Index pairs = ceil_div(block.key_dim, 2);
  for_tiles(block, [&](auto rows, Index query) {
    float* tile = worker.queries + query * block.key_dim;
    for (Index r = 0; r < rows; ++r) {
      const Index q = query + r;
      const float* from =
          queries + block.row_of(q) * problem.query_stride + block.head_of(q) * block.key_dim;
      if constexpr (codec::IntegerCodec<K>) {
        for (Index k = 0; k < block.key_dim; ++k) tile[k] = from[k] * problem.scale;
        worker.query_scales[q] =
            quantise_query(tile, block.key_dim, largest_of_query<K>(block.key_dim),
                           worker.pairs + query * pairs, rows, r);
      } else {
        for (Index k = 0; k < block.key_dim; ++k) tile[k * rows + r] = from[k] * problem.scale;
      }
    }
  });
}

}  // namespace decant::inline v0::attention::detail
