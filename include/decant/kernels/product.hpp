// decant/kernels/product.hpp - out = in * weightsᵀ, for one row and for many.
//
// Work is cut into groups of panels and blocks of rows, never inside a sum. Many rows reuse a
// group of panels from the second-level cache, so columns are cut into blocks that fit there;
// between blocks the sums are kept as f32 in `out`, which changes no bit.
//
// Depends on  core/executor.hpp, kernels/packed.hpp, kernels/tile.hpp
// Tested by   tests/kernels/product_test.cpp, against tests/reference/matrix.hpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/packed.hpp>
#include <decant/kernels/tile.hpp>

#include <algorithm>

namespace decant::inline v0::kernels {

// Where the sums of a product begin: at zero or, for a residual stream, at what `out` holds; and
// plus a bias where there is one.
struct Start {
  bool at_out = false;
  const float* bias = nullptr;  // [outputs]
};

// Shape    in [rows][columns of the weights] at in_stride; out [rows][outputs] at out_stride
struct ProductShape {
  Index rows = 0;
  Index in_stride = 0;
  Index out_stride = 0;
};

namespace detail {

inline constexpr Index kColumnBlock = 384;  // 64 outputs of f32: 96 KiB of the second-level cache
inline constexpr Index kRowBlock = 96;      // 16 tiles: what one piece of work holds at most

// Gives the sums of outputs [first, first + count) of every row their starting values, where they
// do not begin at zero; says which it is.
inline Begin begin_sums(float* out, const ProductShape& shape, Index first, Index count,
                        const Start& start) {
  if (!start.at_out && start.bias == nullptr) return Begin::zero;
  for (Index row = 0; row < shape.rows; ++row) {
    float* sums = out + row * shape.out_stride + first;
    if (!start.at_out) std::fill_n(sums, count, 0.0f);
    if (start.bias == nullptr) continue;
    for (Index n = 0; n < count; ++n) sums[n] += start.bias[first + n];
  }
  return Begin::sums;
}

// Some of the columns of a matrix.
struct Columns {
  Index first = 0;
  Index count = 0;
};

// The columns for R rows and P panels from `panel` on.
template <codec::Codec C, int R, int P>
void multiply_block(const Packed<C>& weights, Index panel, const Columns& columns, const float* in,
                    float* out, const ProductShape& shape, Begin begin) {
  const typename C::Cell* panels[P];
  for (int p = 0; p < P; ++p) panels[p] = weights.panel(panel + p) + columns.first * kLanes;
  const Index outputs = std::min(weights.rows() - panel * kLanes, P * kLanes);
  in += columns.first;
  out += panel * kLanes;
  if (outputs == P * kLanes) {
    return multiply_tile<C, R, P>(in, shape.in_stride, panels, columns.count, out, shape.out_stride,
                                  begin);
  }
  alignas(64) float sums[R][P * kLanes] = {};  // the last panel is not full
  if (begin == Begin::sums) {
    for (int r = 0; r < R; ++r) std::copy_n(out + r * shape.out_stride, outputs, sums[r]);
  }
  multiply_tile<C, R, P>(in, shape.in_stride, panels, columns.count, sums[0], P * kLanes, begin);
  for (int r = 0; r < R; ++r) std::copy_n(sums[r], outputs, out + r * shape.out_stride);
}

// All rows and columns of panels [panel, panel + P), block of columns by block of columns.
template <codec::Codec C, int P>
void multiply_panels(const Packed<C>& weights, Index panel, const float* in, float* out,
                     const ProductShape& shape, const Start& start) {
  const Index first = panel * kLanes;
  Begin begin = begin_sums(out, shape, first, std::min(weights.rows() - first, P * kLanes), start);
  const Index block = shape.rows <= kTileRows ? weights.columns() : kColumnBlock;
  for (Index column = 0; column < weights.columns(); column += block) {
    const Columns columns = {column, std::min(block, weights.columns() - column)};
    for (Index row = 0; row < shape.rows; row += kTileRows) {
      with_rows(std::min<Index>(kTileRows, shape.rows - row), [&](auto rows) {
        multiply_block<C, rows, P>(weights, panel, columns, in + row * shape.in_stride,
                                   out + row * shape.out_stride, shape, begin);
      });
    }
    begin = Begin::sums;
  }
}

// One row: as many panels at once as there are streams of memory worth reading.
template <codec::Codec C>
void multiply_row(const Packed<C>& weights, Range panels, const float* in, float* out,
                  const ProductShape& shape, const Start& start) {
  constexpr Index kAtOnce = kRowPanels;
  const Columns columns = {0, weights.columns()};
  const Index first = panels.begin * kLanes;
  const Index outputs = std::min(weights.rows(), panels.end * kLanes) - first;
  const Begin begin = begin_sums(out, shape, first, outputs, start);
  Index panel = panels.begin;
  for (; panel + kAtOnce <= panels.end; panel += kAtOnce) {
    multiply_block<C, 1, kAtOnce>(weights, panel, columns, in, out, shape, begin);
  }
  for (; panel < panels.end; ++panel) {
    multiply_block<C, 1, 1>(weights, panel, columns, in, out, shape, begin);
  }
}

template <codec::Codec C>
void multiply_rows(const Packed<C>& weights, Range panels, const float* in, float* out,
                   const ProductShape& shape, const Start& start) {
  Index panel = panels.begin;
  for (; panel + kTilePanels <= panels.end; panel += kTilePanels) {
    multiply_panels<C, kTilePanels>(weights, panel, in, out, shape, start);
  }
  for (; panel < panels.end; ++panel) {
    multiply_panels<C, 1>(weights, panel, in, out, shape, start);
  }
}

}  // namespace detail

// out = start + in * weightsᵀ. An output depends on its own row of `in` alone, bit for bit.
//
// Shape    in [rows][weights.columns()], out [rows][weights.rows()], with the strides of `shape`
// Cost     rows * weights.rows() * weights.columns() multiply-adds; allocates nothing
// Threads  weights may be shared; `out` must not overlap `in`
template <codec::Codec C>
void multiply(const Packed<C>& weights, const float* in, float* out, const ProductShape& shape,
              Start start, Executor& executor) {
  const bool one_row = shape.rows == 1;
  const Index group = one_row ? kRowPanels : kTilePanels;
  const Index groups = ceil_div(weights.panels(), group);
  const Index row_blocks = ceil_div(shape.rows, detail::kRowBlock);
  // One row reads each panel once: a few long runs. Many rows: a piece per group and row block.
  const Index runs = one_row ? std::min(groups, executor.threads() * 4) : groups;
  executor.parallel_for(runs * row_blocks, [&](Index item, Index) {
    const Index run = item / row_blocks;
    const Index row = item % row_blocks * detail::kRowBlock;
    const Range panels = {groups * run / runs * group,
                          std::min(groups * (run + 1) / runs * group, weights.panels())};
    const ProductShape part = {std::min(shape.rows - row, detail::kRowBlock), shape.in_stride,
                               shape.out_stride};
    const float* from = in + row * shape.in_stride;
    float* to = out + row * shape.out_stride;
    if (one_row) {
      detail::multiply_row(weights, panels, from, to, part, start);
    } else {
      detail::multiply_rows(weights, panels, from, to, part, start);
    }
  });
}

}  // namespace decant::inline v0::kernels
