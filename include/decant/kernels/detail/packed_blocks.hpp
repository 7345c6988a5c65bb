// decant/kernels/detail/packed_blocks.hpp - weights in blocks, cut into panels of 16 outputs.
//
// As Packed, with blocks of 32 weights and their scales instead of cells. Two blocks of 16 outputs
// are one run of whole cache lines: their scales, then their integers, four of one output side by
// side, as machines multiply bytes.
//
// Tested by   tests/kernels/block_product_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/core/resources.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/packed.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace decant::inline DECANT_ABI::kernels::detail {

// Shape    panels are [ceil(rows / 16)][ceil(columns / 64)] of two blocks of 16 outputs; what lies
//          beyond the last row or column is zero
// Errors   std::invalid_argument (extents, views that do not stack), std::bad_alloc
// Threads  const after construction
template <codec::BlockCodec Q>
class PackedBlocks {
 public:
  static constexpr Index kWeights = codec::kBlockWeights;
  static constexpr Index kColumnStep = 2 * kWeights;

  // Where the scales and the integers of block `block` begin, counted from an even one: those of
  // two blocks, and then the 16 outputs' integers of one block and of the other.
  //
  // Units    bytes
  static constexpr Index scales_at(Index block) noexcept {
    return block / 2 * kTwoBytes + block % 2 * kScaleBytes;
  }
  static constexpr Index integers_at(Index block) noexcept {
    return block / 2 * kTwoBytes + 2 * kScaleBytes + block % 2 * kBlockBytes;
  }

  explicit PackedBlocks(std::span<const MatrixView> stacked,
                        Activations activations = Activations::quantised,
                        const Resources& resources = {})
      : extents_(stacked_extents(stacked)), activations_(activations) {
    checked_product({panels(), ceil_div(columns(), kColumnStep), kTwoBytes});
    memory_ = filled_panels<std::uint8_t>(
        panels(), panel_bytes(), resources,
        [&](std::uint8_t* to, Index panel) { pack(stacked, panel, to); });
  }
  // Panels that are there already, as bytes() of them were in a matrix of those extents.
  PackedBlocks(const Extents& extents, Activations activations,
               std::shared_ptr<const std::byte> memory)
      : extents_(extents),
        activations_(activations),
        memory_(memory, reinterpret_cast<const std::uint8_t*>(memory.get())) {}

  Index rows() const noexcept { return extents_.rows; }
  Index columns() const noexcept { return extents_.columns; }
  Index panels() const noexcept { return extents_.panels(); }
  Index panel_bytes() const noexcept { return ceil_div(columns(), kColumnStep) * kTwoBytes; }
  Index bytes() const noexcept { return panels() * panel_bytes(); }
  Activations activations() const noexcept { return activations_; }
  std::shared_ptr<const std::byte> memory() const noexcept {
    return {memory_, reinterpret_cast<const std::byte*>(memory_.get())};
  }

  // The two blocks of a panel of which one holds `column`.
  const std::uint8_t* two_blocks(Index panel, Index column) const noexcept {
    return memory_.get() + panel * panel_bytes() + column / kColumnStep * kTwoBytes;
  }

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another size)
  void row(Index at, std::span<float> out) const {
    extents_.check_row(at, out);
    for (Index column = 0; column < columns(); column += kWeights) {
      float weights[kWeights];
      codec::load<Q>(get(two_blocks(at / kLanes, 0), at % kLanes, column), weights);
      std::copy_n(weights, std::min(kWeights, columns() - column), out.data() + column);
    }
  }

 private:
  using Block = typename Q::Block;
  static constexpr Index kScaleBytes = 2 * kLanes;
  static constexpr Index kBlockBytes = kLanes * kWeights * Q::kBits / 8;
  static constexpr Index kTwoBytes = 2 * kScaleBytes + 2 * kBlockBytes;
  static constexpr Index kGroups = kBlockBytes / kLanes / 4;

  // A block of a file as it is; anything else, quantised.
  static Block block_of(const MatrixView& view, Index row, Index column) {
    if (view.type == Q::kType) return stored_block<Q>(view, row, column);
    float weights[kWeights] = {};
    read_weights(view, row, column,
                 std::span(weights).first(
                     static_cast<std::size_t>(std::min(kWeights, view.columns - column))));
    return Q::quantise(weights);
  }

  // Where the scale of a row's block lies in its panel, and group g of four of its integers.
  static constexpr Index scale_of(Index row, Index column) noexcept {
    return scales_at(column / kWeights) + row * 2;
  }
  static constexpr Index group_of(Index row, Index column, Index group) noexcept {
    return integers_at(column / kWeights) + (group * kLanes + row) * 4;
  }

  void pack(std::span<const MatrixView> stacked, Index panel, std::uint8_t* to) const {
    std::fill_n(to, panel_bytes(), std::uint8_t{0});
    for_panel_rows(stacked, panel, [&](const MatrixView& view, Index from, Index row) {
      for (Index column = 0; column < columns(); column += kWeights) {
        put(to, row, column, block_of(view, from, column));
      }
    });
  }

  static void put(std::uint8_t* panel, Index row, Index column, const Block& block) {
    std::memcpy(panel + scale_of(row, column), &block.scale, 2);
    const auto bytes = Q::packed(block);
    for (Index g = 0; g < kGroups; ++g) {
      std::memcpy(panel + group_of(row, column, g), bytes.data() + 4 * g, 4);
    }
  }
  static Block get(const std::uint8_t* panel, Index row, Index column) {
    decltype(Q::packed(Block{})) bytes;
    for (Index g = 0; g < kGroups; ++g) {
      std::memcpy(bytes.data() + 4 * g, panel + group_of(row, column, g), 4);
    }
    Block block = Q::unpacked(bytes);
    std::memcpy(&block.scale, panel + scale_of(row, column), 2);
    return block;
  }

  Extents extents_;
  Activations activations_;
  std::shared_ptr<const std::uint8_t> memory_;
};

}  // namespace decant::inline DECANT_ABI::kernels::detail
