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
#include <decant/core/resources.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/kernels/product.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
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

// f(view, row of the view, row of the panel) for every row of panel `panel` of stacked views.
template <class F>
void for_panel_rows(std::span<const MatrixView> stacked, Index panel, F&& f) {
  Index first = -panel * kLanes;  // of a view, counted from the panel's
  for (const MatrixView& view : stacked) {
    const Index end = std::min(first + view.rows, kLanes);
    for (Index row = std::max<Index>(first, 0); row < end; ++row) f(view, row - first, row);
    first += view.rows;
  }
}

// Memory that `fill(cells of a panel, panel)` fills, on several threads.
template <class Cell, class F>
std::shared_ptr<const Cell> filled_panels(Index panels, Index panel_cells,
                                          const Resources& resources, F&& fill) {
  Buffer<Cell> memory(checked_product(panels, panel_cells), resources.memory);
  resources.executor.parallel_for(
      panels, [&](Index panel, Index) { fill(memory.data() + panel * panel_cells, panel); });
  const auto owner = std::make_shared<const Buffer<Cell>>(std::move(memory));
  return {owner, owner->data()};
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
  explicit Packed(std::span<const MatrixView> stacked, Activations activations = Activations::full,
                  const Resources& resources = {})
      : extents_(stacked_extents(stacked)), activations_(kBf16 ? activations : Activations::full) {
    checked_product({panels(), round_up(columns(), kColumnStep), kLanes});
    cells_ = filled_panels<Cell>(panels(), panel_cells(), resources,
                                 [&](Cell* to, Index panel) { pack(stacked, panel, to); });
  }
  // Panels that are there already, as bytes() of them were in a matrix of those extents.
  Packed(const Extents& extents, Activations activations, std::shared_ptr<const std::byte> memory)
      : extents_(extents),
        activations_(kBf16 ? activations : Activations::full),
        cells_(memory, reinterpret_cast<const Cell*>(memory.get())) {}

  Index rows() const noexcept { return extents_.rows; }
  Index columns() const noexcept { return extents_.columns; }
  Index panels() const noexcept { return extents_.panels(); }
  Index panel_cells() const noexcept { return round_up(columns(), kColumnStep) * kLanes; }
  const Cell* panel(Index at) const noexcept { return cells_.get() + at * panel_cells(); }
  Index bytes() const noexcept { return panels() * panel_cells() * Index{sizeof(Cell)}; }
  Activations activations() const noexcept { return activations_; }
  std::shared_ptr<const std::byte> memory() const noexcept {
    return {cells_, reinterpret_cast<const std::byte*>(cells_.get())};
  }

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another size)
  void row(Index at, std::span<float> out) const {
    extents_.check_row(at, out);
    for (Index column = 0; column < columns(); ++column) {
      out[static_cast<std::size_t>(column)] =
          C::load(panel(at / kLanes)[offset(at % kLanes, column)]);
    }
  }

 private:
  // Of a row within its panel.
  static constexpr Index offset(Index row, Index column) noexcept {
    return column / kColumnStep * kColumnStep * kLanes + row * kColumnStep + column % kColumnStep;
  }

  void pack(std::span<const MatrixView> stacked, Index panel, Cell* to) const {
    std::fill_n(to, panel_cells(), C::store(0.0f));
    std::vector<float> weights(static_cast<std::size_t>(columns()));
    for_panel_rows(stacked, panel, [&](const MatrixView& view, Index from, Index row) {
      view.type == C::kType ? copy(view, from, row, to) : convert(view, from, row, weights, to);
    });
  }

  static void copy(const MatrixView& view, Index from, Index row, Cell* to) {
    const auto* cells = static_cast<const char*>(view.data);
    for (Index column = 0; column < view.columns; ++column) {
      const Index at = from * view.row_stride + column * view.column_stride;
      std::memcpy(&to[offset(row, column)], cells + at * Index{sizeof(Cell)}, sizeof(Cell));
    }
  }

  static void convert(const MatrixView& view, Index from, Index row, std::span<float> weights,
                      Cell* to) {
    read_weights(view, from, 0, weights);
    for (Index column = 0; column < view.columns; ++column) {
      to[offset(row, column)] = C::store(weights[static_cast<std::size_t>(column)]);
    }
  }

  Extents extents_;
  Activations activations_;
  std::shared_ptr<const Cell> cells_;
};

}  // namespace decant::inline DECANT_ABI::kernels::detail
