// decant/attention/detail/query_tile.hpp - queries laid out as tile products with keys read them.
//
// Integer keys meet queries quantised to integers: of 16 bits if sums over a key leave room for
// that (int8 keys of up to 512 elements, int4 of any size), of fewer otherwise. A query of 16 bits
// with a scale of its own is off by at most 1/65534 of its largest element, far less than keys of 8
// bits are, and the sums are exact.
//
// Tested by   tests/attention/query_tile_test.cpp
#pragma once

#include <decant/attention/detail/key_tile.hpp>
#include <decant/attention/problem.hpp>
#include <decant/codec/concept.hpp>
#include <decant/codec/scale.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/simd/int16_lanes.hpp>
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace decant::inline DECANT_ABI::attention::detail {

// The largest integer of a query, such that no sum with integer keys leaves 32 bits.
template <codec::IntegerCodec K>
constexpr Index largest_of_query(Index key_dim) noexcept {
  constexpr Index kSum = std::numeric_limits<std::int32_t>::max();
  const Index summed = K::kGroup > 0 ? std::min<Index>(K::kGroup, key_dim) : key_dim;
  return std::clamp<Index>(kSum / (128 * std::max<Index>(1, summed)), 1, 32767);
}

// Row r of a tile of `rows`, as integers up to `largest`, two a word; an odd last one is followed
// by zero. Returns their scale, which is NaN if an element is not finite.
inline float quantise_query(const float* row, Index count, Index largest, std::int32_t* tile,
                            Index rows, Index r) {
  simd::Lanes top = simd::broadcast(0.0f);
  simd::Lanes odd = simd::broadcast(0.0f);  // stays zero while all are finite
  simd::for_lanes(count, [&](Index at, Index some) {
    const simd::Lanes part = simd::load_first(row + at, some);
    top = simd::max(top, simd::abs(part));
    odd = simd::madd(part, simd::broadcast(0.0f), odd);
  });
  const bool finite = simd::reduce_add(odd) == 0.0f;
  const float size = finite ? simd::reduce_max(top) : 0.0f;
  const auto most = static_cast<float>(largest);
  const float scale = codec::scale_for(size, most);
  const float inverse = scale == 0.0f ? 0.0f : most / size;
  simd::for_lanes(count, [&](Index at, Index some) {
    alignas(64) float part[kLanes];
    std::int32_t integers[kLanes];
    simd::store(part, simd::load_first(row + at, some));
    for (Index n = 0; n < kLanes; ++n) {
      const float multiple = std::clamp(part[n] * inverse, -most, most);  // in any rounding mode
      integers[n] = finite ? static_cast<std::int32_t>(std::nearbyint(multiple)) : 0;
    }
    for (Index n = 0; n < some; n += 2) {
      tile[(at + n) / 2 * rows + r] = simd::pack_int16(integers[n], integers[n + 1]);
    }
  });
  return finite ? scale : std::numeric_limits<float>::quiet_NaN();
}

// The queries, scaled, as the tiles of kernels/row_tiles.hpp: in f32, or in integers if keys are.
template <codec::Codec K>
void gather(const float* from, const Problem& problem, const QueryTile& queries,
            const Scratch::Worker& worker) {
  const Index words = ceil_div(queries.key_dim, 2);
  for_tiles(queries, [&](auto rows, Index query) {
    float* tile = worker.queries + query * queries.key_dim;
    for (Index r = 0; r < rows; ++r) {
      const Index q = query + r;
      const float* row =
          from + queries.row_of(q) * problem.query_stride + queries.head_of(q) * queries.key_dim;
      if constexpr (codec::IntegerCodec<K>) {
        for (Index k = 0; k < queries.key_dim; ++k) tile[k] = row[k] * problem.scale;
        worker.query_scales[q] =
            quantise_query(tile, queries.key_dim, largest_of_query<K>(queries.key_dim),
                           worker.int_queries + query * words, rows, r);
      } else {
        for (Index k = 0; k < queries.key_dim; ++k) tile[k * rows + r] = row[k] * problem.scale;
      }
    }
  });
}

}  // namespace decant::inline DECANT_ABI::attention::detail
