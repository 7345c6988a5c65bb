// decant/kernels/row_tiles.hpp - rows of activations in the order in which a product reads them.
//
// A tile product takes element k of up to six rows, then element k + 1. Laid out like that, the
// rows of a tile are one run of memory. In the caller's layout they are six, often a power of two
// apart: these compete for the same sets of a cache and overtax its prefetcher. Weights in blocks
// multiply quantised rows: every 32 elements of a row get a scale of their own; weights in bf16 may
// multiply rows in bf16, two elements a word.
//
// Source      Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"
// Tested by   tests/kernels/row_tiles_test.cpp
#pragma once

#include <decant/core/buffer.hpp>
#include <decant/core/config.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/memory.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory_resource>

namespace decant::inline DECANT_ABI::kernels {

namespace detail {

// 32 elements of R rows: element k of row r is scale[r] times signed byte k % 4 of four[k / 4][r].
// `start` is what the sums of a product begin at, so that weights may be unsigned.
template <int R>
struct Int8Tile {
  static constexpr Index kElements = 32;

  Grid<std::int32_t, kElements / 4, R> four;
  Array<std::int32_t, R> start;
  Array<float, R> scale;
};

}  // namespace detail

// Room for the rows of one product at a time; products lay them out.
//
// Shape    tile t holds rows [6 t, 6 t + r), where r is 6 except in the last tile: elements as
//          [columns][r], words of two bf16 as [ceil(columns / 2)][r], or int8 as
//          [ceil(columns / 32)] of Int8Tile<r>
// Errors   std::invalid_argument (extents), std::bad_alloc from the constructor
// Threads  one product at a time
class RowTiles {
 public:
  // The most rows, and the widest, that will be asked for.
  RowTiles(Index rows, Index columns, std::pmr::memory_resource& memory = default_memory());

  // Takes rows that are `stride` apart: a single one where it lies, copies of several.
  //
  // Errors   std::invalid_argument when there is no room for so many; nothing changed then
  void assign(const float* rows, Index stride, Index count, Index columns, Executor& executor);

  // The same in bf16; an odd last element is followed by zero.
  void assign_bf16(const float* rows, Index stride, Index count, Index columns, Executor& executor);

  // The same in int8, for weights whose integers are shifted by `zero`.
  void assign_int8(const float* rows, Index stride, Index count, Index columns, std::int32_t zero,
                   Executor& executor);

  // The tile of R rows from `row` on, a multiple of 6: its elements from `column` on, or the words
  // and blocks from the one that holds `column` on.
  template <int R>
  const float* f32(Index row, Index column) const noexcept {
    return reinterpret_cast<const float*>(base_ + row * row_bytes_) + column * R;
  }
  template <int R>
  const std::uint32_t* bf16(Index row, Index column) const noexcept {
    return reinterpret_cast<const std::uint32_t*>(base_ + row * row_bytes_) + column / 2 * R;
  }
  template <int R>
  const detail::Int8Tile<R>* int8(Index row, Index column) const noexcept {
    return reinterpret_cast<const detail::Int8Tile<R>*>(base_ + row * row_bytes_) + column / 32;
  }

 private:
  void make_room(Index rows, Index row_bytes);
  template <class F>
  void for_tiles(Index count, Executor& executor, F&& fill);

  Buffer<std::byte> memory_;
  const std::byte* base_ = nullptr;
  Index row_bytes_ = 0;
};

}  // namespace decant::inline DECANT_ABI::kernels

#if !defined(DECANT_COMPILED)
#include <decant/kernels/detail/row_tiles.hpp>
#endif
