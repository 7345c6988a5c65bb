// decant/kernels/matrix_view.hpp - a matrix of weights in memory, in any format, before it is
// packed.
//
// Tested by   tests/kernels/packed_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/types.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

// A matrix in memory that others own, of any alignment; strides count cells.
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

namespace detail {

// The block of a view in Q's format that begins at `column` of `row`.
template <codec::BlockCodec Q>
typename Q::Block stored_block(const MatrixView& view, Index row, Index column) {
  typename Q::Block block;
  const Index at = (row * view.row_stride + column) / codec::kBlockWeights;
  std::memcpy(&block, static_cast<const char*>(view.data) + at * Index{sizeof block}, sizeof block);
  return block;
}

}  // namespace detail

// Weights [column, column + out.size()) of a row, widened; of a block format, whole blocks.
inline void read_weights(const MatrixView& view, Index row, Index column, std::span<float> out) {
  codec::visit_weights(view.type, [&]<class From>(From) {
    if constexpr (codec::BlockCodec<From>) {
      for (std::size_t at = 0; at < out.size(); at += codec::kBlockWeights) {
        codec::load<From>(detail::stored_block<From>(view, row, column + static_cast<Index>(at)),
                          out.subspan(at).template first<codec::kBlockWeights>());
      }
    } else {
      typename From::Cell cell;
      const auto* from = static_cast<const char*>(view.data);
      for (float& weight : out) {
        const Index at = row * view.row_stride + column++ * view.column_stride;
        std::memcpy(&cell, from + at * Index{sizeof cell}, sizeof cell);
        weight = From::load(cell);
      }
    }
  });
}

}  // namespace decant::inline DECANT_ABI::kernels
