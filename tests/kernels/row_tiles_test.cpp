// tests/kernels/row_tiles_test.cpp - every element lies where a tile product reads it.
#include <decant/kernels/row_tiles.hpp>

#include "law/bits.hpp"

#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using kernels::RowTiles;
using kernels::detail::kTileRows;

void expect_tiles(Index rows, Index columns, Executor& executor) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << columns);
  const Index stride = columns + 3;
  const std::vector<float> in = trial::noisy(rows * stride, 1);
  RowTiles tiles(rows, columns);
  tiles.assign(in.data(), stride, rows, columns, executor);
  for (Index row = 0; row < rows; ++row) {
    const Index first = row / kTileRows * kTileRows;
    const Index together = std::min<Index>(kTileRows, rows - first);
    for (Index column = 0; column < columns; ++column) {
      kernels::detail::with_rows(together, [&](auto r) {
        ASSERT_EQ(tiles.f32<r>(first, column)[row - first],
                  in[static_cast<std::size_t>(row * stride + column)])
            << "row " << row << ", column " << column;
      });
    }
  }
}

TEST(RowTiles, HoldEveryElementInTileOrder) {
  ThreadPool pool(3);
  for (Index rows : {1, 2, 5, 6, 7, 11, 12, 13, 40}) {
    for (Index columns : {1, 2, 15, 16, 17, 33, 100}) {
      expect_tiles(rows, columns, serial_executor());
      expect_tiles(rows, columns, pool);
    }
  }
}

TEST(RowTiles, AreUsedAgainForOtherRows) {
  const std::vector<float> in = trial::noisy(60, 2);
  RowTiles tiles(10, 6);
  tiles.assign(in.data(), 6, 10, 6, serial_executor());
  tiles.assign(in.data() + 10, 5, 2, 5, serial_executor());
  EXPECT_EQ(tiles.f32<2>(0, 3)[1], in[10 + 5 + 3]);
}

TEST(RowTiles, RefuseMoreThanTheyHaveRoomFor) {
  const std::vector<float> in(22);
  RowTiles tiles(2, 10);
  EXPECT_THROW(tiles.assign(in.data(), 11, 2, 11, serial_executor()), std::invalid_argument);
  EXPECT_THROW(RowTiles(-1, 1), std::invalid_argument);
}

}  // namespace
