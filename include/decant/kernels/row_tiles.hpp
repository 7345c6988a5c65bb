// decant/kernels/row_tiles.hpp - rows of numbers in the order in which a product reads them.
//
// A tile product takes number k of up to six rows, then number k + 1. Laid out like that, the rows
// of a tile are one run of memory; as a user has them they are six, often a power of two apart,
// which compete for the same sets of a cache and leave its prefetcher behind.
//
// Depends on  core/buffer.hpp, core/executor.hpp, kernels/tile.hpp
// Source      Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"
// Tested by   tests/kernels/row_tiles_test.cpp
#pragma once

#include <decant/core/buffer.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/tile.hpp>

#include <algorithm>

namespace decant::inline v0::kernels {

// Room for the rows of one product at a time.
//
// Shape    tile t holds rows [6 t, 6 t + r): [columns][r], where r = 6 but in the last tile
// Errors   std::invalid_argument (negative room), std::bad_alloc from the constructor
// Threads  one product at a time
class RowTiles {
 public:
  // Units    numbers: the most rows times columns that will be asked for
  explicit RowTiles(Index numbers) : numbers_(numbers) {}

  // Copies rows that are `stride` apart.
  //
  // Errors   std::invalid_argument when they are more than there is room for; nothing changed then
  void assign(const float* rows, Index stride, Index count, Index columns, Executor& executor) {
    expects(count * columns <= numbers_.size(), "kernels::RowTiles: ", count, " rows of ", columns,
            " numbers, with room for ", numbers_.size());
    columns_ = columns;
    executor.parallel_for(ceil_div(count, kTileRows), [&](Index tile, Index) {
      const Index row = tile * kTileRows;
      copy(rows + row * stride, stride, std::min<Index>(kTileRows, count - row),
           numbers_.data() + row * columns);
    });
  }

  // The tile whose first row is `row`, from `column` on. Its rows are `rows` many.
  const float* at(Index row, Index rows, Index column) const noexcept {
    return numbers_.data() + row * columns_ + column * rows;
  }

 private:
  void copy(const float* rows, Index stride, Index count, float* to) const {
    for (Index column = 0; column < columns_; ++column) {
      for (Index row = 0; row < count; ++row) *to++ = rows[row * stride + column];
    }
  }

  Buffer<float> numbers_;
  Index columns_ = 0;
};

}  // namespace decant::inline v0::kernels
