// decant/kernels/packed.hpp - a matrix cut into panels of 16 rows, ready for products.
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
#include <decant/simd/lanes.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

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

struct Extents {
  Index rows = 0;
  Index columns = 0;

  Index panels() const noexcept { return ceil_div(rows, kLanes); }

  // Refuses to read row `at` into `out`.
  //
  // Errors   std::invalid_argument (no such row, another width)
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
                (view.columns % codec::kBlockNumbers == 0 && view.column_stride == 1 &&
                 view.row_stride % codec::kBlockNumbers == 0),
            "kernels::Packed: rows of ", view.columns, " numbers are no whole blocks of ",
            codec::kBlockNumbers);
    whole.rows = checked_sum(whole.rows, view.rows);
  }
  expects(whole.rows > 0, "kernels::Packed: no rows");
  whole.columns = stacked[0].columns;
  return whole;
}

// The block of a view in Q's format that begins at `column` of `row`.
template <codec::BlockCodec Q>
typename Q::Block stored_block(const MatrixView& view, Index row, Index column) {
  typename Q::Block block;
  const Index at = (row * view.row_stride + column) / codec::kBlockNumbers;
  std::memcpy(&block, static_cast<const char*>(view.data) + at * Index{sizeof block}, sizeof block);
  return block;
}

// Numbers [column, column + out.size()) of a row, widened; of blocks, whole ones.
inline void read_numbers(const MatrixView& view, Index row, Index column, std::span<float> out) {
  codec::visit_weights(view.type, [&]<class From>(From) {
    if constexpr (codec::BlockCodec<From>) {
      for (std::size_t at = 0; at < out.size(); at += codec::kBlockNumbers) {
        codec::load<From>(stored_block<From>(view, row, column + static_cast<Index>(at)),
                          out.subspan(at).template first<codec::kBlockNumbers>());
      }
    } else {
      typename From::Cell cell;
      const auto* from = static_cast<const char*>(view.data);
      for (float& number : out) {
        const Index at = row * view.row_stride + column++ * view.column_stride;
        std::memcpy(&cell, from + at * Index{sizeof cell}, sizeof cell);
        number = From::load(cell);
      }
    }
  });
}

// What a product does to its rows: brings them to the kind of numbers that the machine multiplies
// with the weights at once, bf16 beside bf16 and whole numbers beside blocks; or keeps them in f32.
enum class Activations { quantised, full };

// Those that weights of a format have unless others are asked for: quantised beside blocks, which
// have lost more already, and full beside all else, with the same bits on every machine.
constexpr Activations default_activations(codec::Type type) noexcept {
  return codec::is_block(type) ? Activations::quantised : Activations::full;
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
  static constexpr bool kPairs = std::same_as<C, codec::BF16>;

  // The rows of all views, one below the other. Only bf16 has activations that are not full.
  explicit Packed(std::span<const MatrixView> stacked, Activations activations = Activations::full)
      : extents_(stacked_extents(stacked)),
        activations_(kPairs ? activations : Activations::full),
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
  // Errors   std::invalid_argument (no such row, another width)
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
    std::vector<float> numbers(static_cast<std::size_t>(view.columns));
    for (Index row = 0; row < view.rows; ++row) {
      read_numbers(view, row, 0, numbers);
      for (Index column = 0; column < view.columns; ++column) {
        cells_[offset(first + row, column)] = C::store(numbers[static_cast<std::size_t>(column)]);
      }
    }
  }

  Extents extents_;
  Activations activations_;
  Buffer<Cell> cells_;
};

}  // namespace decant::inline v0::kernels
