// decant/kernels/matrix.hpp - a packed matrix whose number format is known at run time.
//
// A checkpoint decides how its numbers are stored. The choice is looked at once per product, and
// the kernels below it are compiled for one format each.
//
// Tested by   tests/kernels/matrix_test.cpp
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/packed.hpp>
#include <decant/kernels/packed_blocks.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kernels/row_tiles.hpp>
#include <decant/simd/bf16_lanes.hpp>

#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>

namespace decant::inline v0::kernels {

// Errors   std::invalid_argument as kernels::Packed; an empty matrix has no rows and no columns
// Threads  const after construction
class Matrix {
 public:
  Matrix() = default;
  explicit Matrix(const MatrixView& view) : Matrix({&view, 1}, view.type) {}
  // `asked` says what a product does to its rows, default_activations() else. Beside bf16 they stay
  // full on a machine that has no instruction for its products.
  Matrix(std::span<const MatrixView> stacked, codec::Type stored_as,
         std::optional<Activations> asked = std::nullopt)
      : packed_(codec::visit_weights(
            stored_as,
            [&]<class Format>(Format) -> Any {
              const Activations activations = asked.value_or(default_activations(stored_as));
              if constexpr (codec::BlockCodec<Format>) {
                return PackedBlocks<Format>(stacked, activations);
              } else {
                return Packed<Format>(stacked, simd::kHasBf16Dot ? activations : Activations::full);
              }
            })),
        type_(stored_as) {}

  bool empty() const noexcept { return std::holds_alternative<std::monostate>(packed_); }
  codec::Type type() const noexcept { return type_; }
  // What a product does to its rows; full where the matrix is empty.
  Activations activations() const noexcept {
    const Index full = static_cast<Index>(Activations::full);
    return empty() ? Activations::full : static_cast<Activations>(ask([&](const auto& packed) {
      return packed.activations() == Activations::full ? full : Index{0};
    }));
  }
  Index rows() const noexcept {
    return ask([](const auto& packed) { return packed.rows(); });
  }
  Index columns() const noexcept {
    return ask([](const auto& packed) { return packed.columns(); });
  }
  Index bytes() const noexcept {
    return ask([](const auto& packed) { return packed.bytes(); });
  }

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another width)
  void row(Index at, std::span<float> out) const {
    expects(!empty(), "kernels::Matrix: row ", at, " of an empty matrix");
    ask([&](const auto& packed) {
      packed.row(at, out);
      return Index{0};
    });
  }

  // As kernels::multiply, by this matrix.
  //
  // Errors   std::invalid_argument for an empty matrix, and for tiles without room
  void multiply(const Product& product, RowTiles& tiles, Executor& executor) const {
    expects(!empty(), "kernels::Matrix: a product with an empty matrix");
    ask([&](const auto& packed) {
      kernels::multiply(packed, product, tiles, executor);
      return Index{0};
    });
  }

 private:
  using Any =
      std::variant<std::monostate, Packed<codec::F32>, Packed<codec::BF16>, Packed<codec::F16>,
                   PackedBlocks<codec::Q8_0>, PackedBlocks<codec::Q4_0>>;

  template <class Question>
  Index ask(Question&& question) const {
    return std::visit(
        [&](const auto& packed) -> Index {
          if constexpr (std::same_as<std::remove_cvref_t<decltype(packed)>, std::monostate>) {
            return 0;
          } else {
            return question(packed);
          }
        },
        packed_);
  }

  Any packed_;
  codec::Type type_ = codec::Type::f32;
};

}  // namespace decant::inline v0::kernels
