// decant/kernels/detail/product.hpp - out = in * weightsᵀ, for one row and for many.
//
// Work is cut into groups of panels and runs of rows, never inside a sum. Many rows reuse a group
// of panels from the second-level cache, so columns are cut into stretches that fit there; between
// them the sums lie as f32 in `out`, which changes no bit.
//
// Tested by   tests/kernels/product_test.cpp, against tests/reference/matrix.hpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/concept.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/block_tile.hpp>
#include <decant/kernels/detail/packed.hpp>
#include <decant/kernels/detail/packed_blocks.hpp>
#include <decant/kernels/detail/tile.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kernels/row_tiles.hpp>

#include <algorithm>
#include <cstdint>

namespace decant::inline DECANT_ABI::kernels::detail {

// Columns of one pass over the rows: 64 outputs of f32 take 512 KiB of the second-level cache.
inline constexpr Index kStretchColumns = 2048;

// A panel of so few columns lies in one page of memory, and is over before it is a stream.
inline constexpr Index kShortColumns = 64;

// Writes the starting values of the sums of outputs [first, first + count) of some rows, unless
// they begin at zero; returns which of the two it is.
inline Begin begin_sums(const Product& product, Range rows, Index first, Index count) {
  if (!product.add && product.bias == nullptr) return Begin::zero;
  for (Index row = rows.begin; row < rows.end; ++row) {
    float* sums = product.out + row * product.out_stride + first;
    if (!product.add) std::fill_n(sums, count, 0.0f);
    if (product.bias == nullptr) continue;
    for (Index n = 0; n < count; ++n) sums[n] += product.bias[first + n];
  }
  return Begin::sums;
}

// R rows times P panels from `panel` on, over some columns: the tile product of each kind of
// weights. Panels beyond the last are the last one again, so that no tile of fewer is compiled.
template <int R, int P, codec::Codec C>
void multiply_tile_of(const Packed<C>& weights, Index panel, const RowTiles& tiles, Index row,
                      Range columns, float* sums, Index sums_stride, Begin begin) {
  Array<const typename C::Cell*, P> panels;
  for (int p = 0; p < P; ++p) {
    panels[p] = weights.panel(std::min(panel + p, weights.panels() - 1)) + columns.begin * kLanes;
  }
  if constexpr (Packed<C>::kBf16) {
    if (weights.activations() == Activations::quantised) {
      return multiply_bf16_tile<R, P>(tiles.bf16<R>(row, columns.begin), panels, columns.size(),
                                      sums, sums_stride, begin);
    }
  }
  multiply_tile<C, R, P>(tiles.f32<R>(row, columns.begin), panels, columns.size(), sums,
                         sums_stride, begin);
}
template <int R, int P, codec::BlockCodec Q>
void multiply_tile_of(const PackedBlocks<Q>& weights, Index panel, const RowTiles& tiles, Index row,
                      Range columns, float* sums, Index sums_stride, Begin begin) {
  Array<const std::uint8_t*, P> panels;
  for (int p = 0; p < P; ++p) {
    panels[p] = weights.two_blocks(std::min(panel + p, weights.panels() - 1), columns.begin);
  }
  if (weights.activations() == Activations::full) {
    return multiply_block_tile_full<Q, R, P>(tiles.f32<R>(row, columns.begin), panels,
                                             columns.size(), sums, sums_stride, begin);
  }
  multiply_block_tile<Q, R, P>(tiles.int8<R>(row, columns.begin), panels,
                               ceil_div(columns.size(), codec::kBlockWeights), sums, sums_stride,
                               begin);
}

// Panels of one tile of several rows, by kind of weights.
template <class Weights>
inline constexpr int kPanelsOf = kTilePanels;
template <codec::BlockCodec Q>
inline constexpr int kPanelsOf<PackedBlocks<Q>> = kBlockTilePanels;

// Rows in the format that the weights multiply.
template <codec::Codec C>
void assign_rows(const Packed<C>& weights, const Product& product, RowTiles& tiles,
                 Executor& executor) {
  if (weights.activations() == Activations::full) {
    tiles.assign(product.in, product.in_stride, product.rows, weights.columns(), executor);
  } else {
    tiles.assign_bf16(product.in, product.in_stride, product.rows, weights.columns(), executor);
  }
}
template <codec::BlockCodec Q>
void assign_rows(const PackedBlocks<Q>& weights, const Product& product, RowTiles& tiles,
                 Executor& executor) {
  if (weights.activations() == Activations::full) {
    tiles.assign(product.in, product.in_stride, product.rows, weights.columns(), executor);
  } else {
    tiles.assign_int8(product.in, product.in_stride, product.rows, weights.columns(), Q::kZero,
                      executor);
  }
}

// sums[r][output] for P panels from `panel` on, of which the last may be missing or not full.
template <int R, int P, class Weights>
void multiply_outputs(const Weights& weights, Index panel, const RowTiles& tiles, Index row,
                      Range columns, const Product& product, Begin begin) {
  const Index outputs = std::min(weights.rows() - panel * kLanes, P * kLanes);
  float* out = product.out + row * product.out_stride + panel * kLanes;
  if (outputs == P * kLanes) {
    return multiply_tile_of<R, P>(weights, panel, tiles, row, columns, out, product.out_stride,
                                  begin);
  }
  alignas(64) Grid<float, R, P * kLanes> sums = {};
  if (begin == Begin::sums) {
    for (int r = 0; r < R; ++r) std::copy_n(out + r * product.out_stride, outputs, sums[r]);
  }
  multiply_tile_of<R, P>(weights, panel, tiles, row, columns, sums[0], P * kLanes, begin);
  for (int r = 0; r < R; ++r) std::copy_n(sums[r], outputs, out + r * product.out_stride);
}

// Some rows times panels [panel, panel + P), stretch of columns by stretch of columns.
template <int P, class Weights>
void multiply_panels(const Weights& weights, Index panel, const RowTiles& tiles, Range rows,
                     const Product& product) {
  const Index first = panel * kLanes;
  Begin begin = begin_sums(product, rows, first, std::min(weights.rows() - first, P * kLanes));
  const Index stretches = ceil_div(weights.columns(), kStretchColumns);
  const Index stretch = round_up(ceil_div(weights.columns(), stretches), Weights::kColumnStep);
  for (Index column = 0; column < weights.columns(); column += stretch) {
    const Range columns = {column, std::min(column + stretch, weights.columns())};
    for (Index row = rows.begin; row < rows.end; row += kTileRows) {
      with_rows(std::min<Index>(kTileRows, product.rows - row), [&](auto together) {
        multiply_outputs<together, P>(weights, panel, tiles, row, columns, product, begin);
      });
    }
    begin = Begin::sums;
  }
}

// One row, P panels at once.
template <int P, class Weights>
void multiply_row(const Weights& weights, Range panels, const RowTiles& tiles,
                  const Product& product) {
  const Range columns = {0, weights.columns()};
  const Index first = panels.begin * kLanes;
  const Index outputs = std::min(weights.rows(), panels.end * kLanes) - first;
  const Begin begin = begin_sums(product, {0, 1}, first, outputs);
  for (Index panel = panels.begin; panel < panels.end; panel += P) {
    multiply_outputs<1, P>(weights, panel, tiles, 0, columns, product, begin);
  }
}

// One row: as many panels at once as there are streams of memory worth reading. A matrix without so
// many, or with panels too short to be streams, is read from front to back.
template <class Weights>
void multiply_row(const Weights& weights, Range panels, const RowTiles& tiles,
                  const Product& product) {
  const bool streams = weights.panels() >= kRowPanels && weights.columns() > kShortColumns;
  streams ? multiply_row<kRowPanels>(weights, panels, tiles, product)
          : multiply_row<1>(weights, panels, tiles, product);
}

template <class Weights>
void multiply_rows(const Weights& weights, Range panels, const RowTiles& tiles, Range rows,
                   const Product& product) {
  constexpr int kPanels = kPanelsOf<Weights>;
  static_assert(kGroupPanels % kPanels == 0, "only the last tile of a matrix may lack panels");
  for (Index panel = panels.begin; panel < panels.end; panel += kPanels) {
    multiply_panels<kPanels>(weights, panel, tiles, rows, product);
  }
}

// Share `item` of [0, count) when it is cut into `items`.
constexpr Range share(Index item, Index items, Index count) noexcept {
  return {count * item / items, count * (item + 1) / items};
}

// Several pieces of work for every thread, so that a late one delays little: few pieces of one row,
// which are streams of memory, and more of many rows.
inline Index pieces_for(const Executor& executor, Index each) noexcept {
  return executor.threads() == 1 ? 1 : executor.threads() * each;
}

// Multiplies as `product` says, by Packed or PackedBlocks. An output depends on its own row of `in`
// alone, bit for bit.
//
// Errors   std::invalid_argument when `tiles` has no room for the rows; nothing changed then
// Cost     rows * weights.rows() * weights.columns() multiply-adds; allocates nothing
// Threads  weights may be shared; tiles and `out` belong to the call
template <class Weights>
void multiply(const Weights& weights, const Product& product, RowTiles& tiles, Executor& executor) {
  if (product.rows == 0) return;
  const bool one_row = product.rows == 1;
  const Index group = one_row ? kRowPanels : kGroupPanels;
  const Index groups = ceil_div(weights.panels(), group);
  const auto panels_of = [&](Range of) {
    return Range{of.begin * group, std::min(of.end * group, weights.panels())};
  };
  assign_rows(weights, product, tiles, executor);
  if (one_row) {  // a few long runs of panels, each read once
    const Index runs = std::min(groups, pieces_for(executor, 4));
    return executor.parallel_for(runs, [&](Index run, Index) {
      multiply_row(weights, panels_of(share(run, runs, groups)), tiles, product);
    });
  }
  const Index row_tiles = ceil_div(product.rows, kTileRows);
  const Index cuts = std::min(row_tiles, ceil_div(pieces_for(executor, 16), groups));
  executor.parallel_for(groups * cuts, [&](Index item, Index) {
    const Range tile_share = share(item % cuts, cuts, row_tiles);
    multiply_rows(
        weights, panels_of({item / cuts, item / cuts + 1}), tiles,
        {tile_share.begin * kTileRows, std::min(tile_share.end * kTileRows, product.rows)},
        product);
  });
}

}  // namespace decant::inline DECANT_ABI::kernels::detail
