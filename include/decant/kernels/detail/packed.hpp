// decant/kernels/detail/packed.hpp - a matrix cut into panels of 16 rows, ready for products.
//
// The rows of a weight matrix are the outputs of its product. Sixteen of them side by side make
// lanes of outputs, so that no product ever adds across lanes, and a panel is one linear run of
// memory.
//
// Tested by   tests/kernels/packed_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/concept.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/kernels/product.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::kernels::detail {

struct Extents {
  Index rows = 0;
  Index columns = 0;

  Index panels() const noexcept { return ceil_div(rows, kLanes); }

  // Refuses to read row `at` into `out`.
  //
  // Errors   std::invalid_argument (no such row, another size)
  void check_row(Index at, std::span<const float> out) const {
    expects(at >= 0 && at < rows, "kernels::Packed: row ", at, " of ", rows);
    expects(std::ssize(out) == columns, "kernels::Packed: a row of ", columns, " into ",
            out.size());
  }
};

// The extents of views that lie one below the other.
//
// Errors   std::invalid_argument (extents, views that do not stack)
inline Extents stacked_extents(std::span<const MatrixView> stacked) {
  Extents whole;
  for (const MatrixView& view : stacked) {
    expects(view.rows > 0 && view.columns > 0 && view.columns == stacked[0].columns,
            "kernels::Packed: cannot stack ", view.rows, " rows of ", view.columns,
            " columns on rows of ", stacked[0].columns);
    expects(!codec::is_block(view.type) ||
                (view.columns % codec::kBlockWeights == 0 && view.column_stride == 1 &&
                 view.row_stride % codec::kBlockWeights == 0),
            "kernels::Packed: rows of ", view.columns, " weights are not divided into blocks of ",
            codec::kBlockWeights);
    whole.rows = checked_sum(whole.rows, view.rows);
  }
  expects(whole.rows > 0, "kernels::Packed: no rows");
  whole.columns = stacked[0].columns;
  return whole;
}

// Shape    panels are [ceil(rows / 16)][ceil(columns / i)][16][i], i = kInterleave; what lies
//          beyond the last row or column is zero
// Errors   std::invalid_argument (extents, views that do not stack), std::bad_alloc
// Threads  const after construction
template <codec::Codec C>
class Packed {
 public:
  using Cell = typename C::Cell;
  static constexpr Index kColumnStep = C::kInterleave;
  static constexpr bool kBf16 = std::same_as<C, codec::BF16>;

  // The rows of all views, one below the other. Only bf16 has activations that are not full.
  explicit Packed(std::span<const MatrixView> stacked, Activations activations = Activations::full)
      : extents_(stacked_extents(stacked)),
        activations_(kBf16 ? activations : Activations::full),
        cells_(checked_product({panels(), round_up(columns(), kColumnStep), kLanes})) {
    std::fill_n(cells_.data(), cells_.size(), C::store(0.0f));
    Index first = 0;
    for (const MatrixView& view : stacked) {
      if (view.type == C::kType) {
        copy(view, first);
      } else {
        convert(view, first);
      }
      first += view.rows;
    }
  }

  Index rows() const noexcept { return extents_.rows; }
  Index columns() const noexcept { return extents_.columns; }
  Index panels() const noexcept { return extents_.panels(); }
  Index panel_cells() const noexcept { return round_up(columns(), kColumnStep) * kLanes; }
  const Cell* panel(Index at) const noexcept { return cells_.data() + at * panel_cells(); }
  Index bytes() const noexcept { return cells_.bytes(); }
  Activations activations() const noexcept { return activations_; }

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another size)
  void row(Index at, std::span<float> out) const {
    extents_.check_row(at, out);
    for (Index column = 0; column < columns(); ++column) {
      out[static_cast<std::size_t>(column)] = C::load(cells_[offset(at, column)]);
    }
  }

 private:
  Index offset(Index row, Index column) const noexcept {
    return row / kLanes * panel_cells() + column / kColumnStep * kColumnStep * kLanes +
           row % kLanes * kColumnStep + column % kColumnStep;
  }

  void copy(const MatrixView& view, Index first) {
    const auto* from = static_cast<const char*>(view.data);
    for (Index row = 0; row < view.rows; ++row) {
      for (Index column = 0; column < view.columns; ++column) {
        const Index at = row * view.row_stride + column * view.column_stride;
        std::memcpy(&cells_[offset(first + row, column)], from + at * Index{sizeof(Cell)},
                    sizeof(Cell));
      }
    }
  }

  void convert(const MatrixView& view, Index first) {
    std::vector<float> weights(static_cast<std::size_t>(view.columns));
    for (Index row = 0; row < view.rows; ++row) {
      read_weights(view, row, 0, weights);
      for (Index column = 0; column < view.columns; ++column) {
        cells_[offset(first + row, column)] = C::store(weights[static_cast<std::size_t>(column)]);
      }
    }
  }

  Extents extents_;
  Activations activations_;
  Buffer<Cell> cells_;
};

}  // namespace decant::inline DECANT_ABI::kernels::detail
