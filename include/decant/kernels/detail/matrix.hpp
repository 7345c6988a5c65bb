// decant/kernels/detail/matrix.hpp - defines kernels/matrix.hpp: one packed matrix of any format.
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/packed.hpp>
#include <decant/kernels/detail/packed_blocks.hpp>
#include <decant/kernels/detail/product.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/simd/bf16_lanes.hpp>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

namespace decant::inline DECANT_ABI::kernels {

class detail::AnyPacked {
 public:
  AnyPacked(std::span<const MatrixView> stacked, codec::Type type, Activations activations)
      : packed_(codec::visit_weights(type, [&]<class Format>(Format) -> Any {
          if constexpr (codec::BlockCodec<Format>) {
            return PackedBlocks<Format>(stacked, activations);
          } else {
            return Packed<Format>(stacked, simd::kHasBf16Dot ? activations : Activations::full);
          }
        })) {}

  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), packed_);
  }

 private:
  using Any = std::variant<Packed<codec::F32>, Packed<codec::BF16>, Packed<codec::F16>,
                           PackedBlocks<codec::Q8_0>, PackedBlocks<codec::Q4_0>>;
  Any packed_;
};

DECANT_INLINE Matrix::Matrix() noexcept = default;
DECANT_INLINE Matrix::Matrix(const MatrixView& view) : Matrix({&view, 1}, view.type) {}
DECANT_INLINE Matrix::Matrix(std::span<const MatrixView> stacked, codec::Type stored_as,
                             std::optional<Activations> asked)
    : packed_(std::make_unique<detail::AnyPacked>(stacked, stored_as,
                                                  asked.value_or(default_activations(stored_as)))),
      type_(stored_as) {}
DECANT_INLINE Matrix::Matrix(Matrix&& other) noexcept = default;
DECANT_INLINE Matrix& Matrix::operator=(Matrix&& other) noexcept = default;
DECANT_INLINE Matrix::~Matrix() = default;

DECANT_INLINE bool Matrix::empty() const noexcept { return packed_ == nullptr; }
DECANT_INLINE Activations Matrix::activations() const noexcept {
  if (empty()) return Activations::full;
  return packed_->visit([](const auto& packed) { return packed.activations(); });
}
DECANT_INLINE Index Matrix::rows() const noexcept {
  return empty() ? 0 : packed_->visit([](const auto& packed) { return packed.rows(); });
}
DECANT_INLINE Index Matrix::columns() const noexcept {
  return empty() ? 0 : packed_->visit([](const auto& packed) { return packed.columns(); });
}
DECANT_INLINE Index Matrix::bytes() const noexcept {
  return empty() ? 0 : packed_->visit([](const auto& packed) { return packed.bytes(); });
}

DECANT_INLINE void Matrix::row(Index at, std::span<float> out) const {
  expects(!empty(), "kernels::Matrix: row ", at, " of an empty matrix");
  packed_->visit([&](const auto& packed) { packed.row(at, out); });
}

DECANT_INLINE void Matrix::multiply(const Product& product, RowTiles& tiles,
                                    Executor& executor) const {
  expects(!empty(), "kernels::Matrix: a product with an empty matrix");
  packed_->visit([&](const auto& packed) { detail::multiply(packed, product, tiles, executor); });
}

}  // namespace decant::inline DECANT_ABI::kernels
