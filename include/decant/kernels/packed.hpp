// decant/kernels/packed.hpp - a matrix cut into panels of 16 rows, ready for products.
//
// The rows of a weight matrix are the outputs of its product. Sixteen of them side by side make
// lanes of outputs, so that no product ever adds across lanes, and a panel is one linear run of
// memory.
//
// Depends on  codec/plain.hpp, core/buffer.hpp, core/error.hpp
// Tested by   tests/kernels/packed_test.cpp
#pragma once

#include <decant/codec/plain.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cstring>
#include <span>

namespace decant::inline v0::kernels {

// Somebody's matrix in memory, of any alignment: cell (r, c) is strides apart in cells.
//
// Shape    [rows][columns]; rows are outputs
struct MatrixView {
  const void* data = nullptr;
  codec::Type type = codec::Type::f32;
  Index rows = 0;
  Index columns = 0;
  Index row_stride = 0;
  Index column_stride = 1;
};

inline MatrixView row_major(const void* data, codec::Type type, Index rows, Index columns) {
  return {data, type, rows, columns, columns, 1};
}

// Shape    panels are [ceil(rows / 16)][ceil(columns / i)][16][i], i = kInterleave; what lies
//          beyond the last row or column is zero
// Errors   std::invalid_argument (extents, views that do not stack), std::bad_alloc
// Threads  const after construction
template <codec::Codec C>
class Packed {
 public:
  using Cell = typename C::Cell;

  // The rows of all views, one below the other.
  explicit Packed(std::span<const MatrixView> stacked) {
    for (const MatrixView& view : stacked) {
      expects(view.rows > 0 && view.columns > 0 && view.columns == stacked[0].columns,
              "kernels::Packed: cannot stack ", view.rows, " rows of ", view.columns,
              " columns on rows of ", stacked[0].columns);
      rows_ = checked_sum(rows_, view.rows);
    }
    expects(rows_ > 0, "kernels::Packed: no rows");
    columns_ = stacked[0].columns;
    cells_ = Buffer<Cell>(checked_product({panels(), round_up(columns_, C::kInterleave), kLanes}));
    std::fill_n(cells_.data(), cells_.size(), C::store(0.0f));
    Index first = 0;
    for (const MatrixView& view : stacked) {
      codec::visit(view.type, [&](auto from) { copy<decltype(from)>(view, first); });
      first += view.rows;
    }
  }

  Index rows() const noexcept { return rows_; }
  Index columns() const noexcept { return columns_; }
  Index panels() const noexcept { return ceil_div(rows_, kLanes); }
  Index panel_cells() const noexcept {
    return ceil_div(columns_, C::kInterleave) * C::kInterleave * kLanes;
  }
  const Cell* panel(Index at) const noexcept { return cells_.data() + at * panel_cells(); }
  Index bytes() const noexcept { return cells_.bytes(); }

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another width)
  void row(Index at, std::span<float> out) const {
    expects(at >= 0 && at < rows_, "kernels::Packed: row ", at, " of ", rows_);
    expects(std::ssize(out) == columns_, "kernels::Packed: a row of ", columns_, " into ",
            out.size());
    for (Index column = 0; column < columns_; ++column) {
      out[static_cast<std::size_t>(column)] = C::load(cells_[offset(at, column)]);
    }
  }

 private:
  Index offset(Index row, Index column) const noexcept {
    constexpr Index kStep = C::kInterleave;
    return row / kLanes * panel_cells() + column / kStep * kStep * kLanes + row % kLanes * kStep +
           column % kStep;
  }

  template <class From>
  void copy(const MatrixView& view, Index first) {
    const auto* bytes = static_cast<const char*>(view.data);
    constexpr Index kSize = sizeof(typename From::Cell);
    for (Index row = 0; row < view.rows; ++row) {
      for (Index column = 0; column < view.columns; ++column) {
        typename From::Cell cell;
        std::memcpy(&cell, bytes + (row * view.row_stride + column * view.column_stride) * kSize,
                    kSize);
        if constexpr (std::same_as<From, C>) {
          cells_[offset(first + row, column)] = cell;
        } else {
          cells_[offset(first + row, column)] = C::store(From::load(cell));
        }
      }
    }
  }

  Index rows_ = 0;
  Index columns_ = 0;
  Buffer<Cell> cells_;
};

}  // namespace decant::inline v0::kernels
