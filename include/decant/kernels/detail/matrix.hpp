// decant/kernels/detail/matrix.hpp - defines kernels/matrix.hpp: one packed matrix of any format.
#pragma once

#include <decant/codec/block.hpp>
#include <decant/codec/plain.hpp>
#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/resources.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/detail/packed.hpp>
#include <decant/kernels/detail/packed_blocks.hpp>
#include <decant/kernels/detail/product.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/simd/bf16_lanes.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

namespace decant::inline DECANT_ABI::kernels {

class detail::AnyPacked {
 public:
  AnyPacked(std::span<const MatrixView> stacked, codec::Type type, Activations activations,
            const Resources& resources)
      : packed_(
            make(type, activations, [&]<class P>(std::in_place_type_t<P>, Activations possible) {
              return P(stacked, possible, resources);
            })) {}
  AnyPacked(const Panels& panels, Activations activations)
      : packed_(make(panels.type, activations,
                     [&]<class P>(std::in_place_type_t<P>, Activations possible) {
                       return P(Extents{panels.rows, panels.columns}, possible, panels.memory);
                     })) {}

  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), packed_);
  }

 private:
  using Any = std::variant<Packed<codec::F32>, Packed<codec::BF16>, Packed<codec::F16>,
                           PackedBlocks<codec::Q8_0>, PackedBlocks<codec::Q4_0>>;

  // make_as(in_place_type<P>, what this machine has of the activations) for P of that format.
  template <class F>
  static Any make(codec::Type type, Activations activations, F&& make_as) {
    return codec::visit_weights(type, [&]<class Format>(Format) -> Any {
      if constexpr (codec::BlockCodec<Format>) {
        return make_as(std::in_place_type<PackedBlocks<Format>>, activations);
      } else {
        return make_as(std::in_place_type<Packed<Format>>,
                       simd::kHasBf16Dot ? activations : Activations::full);
      }
    });
  }

  Any packed_;
};

namespace detail {

inline const Panels& checked(const Panels& panels) {
  expects(!codec::is_scaled(panels.type), "kernels::Matrix: panels of ", codec::name(panels.type),
          ", which is no format of weights");
  expects(panels.rows > 0 && panels.columns > 0, "kernels::Matrix: panels of ", panels.rows,
          " rows of ", panels.columns, " columns");
  checked_product({panels.rows, panels.columns, 64 * kLanes});  // and of all that follows from them
  expects(panels.memory != nullptr &&
              reinterpret_cast<std::uintptr_t>(panels.memory.get()) % kPanelAlignment == 0,
          "kernels::Matrix: panels that do not begin at a multiple of ", kPanelAlignment, " bytes");
  return panels;
}

}  // namespace detail

DECANT_INLINE Matrix::Matrix() noexcept = default;
DECANT_INLINE Matrix::Matrix(const MatrixView& view) : Matrix({&view, 1}, view.type) {}
DECANT_INLINE Matrix::Matrix(std::span<const MatrixView> stacked, codec::Type stored_as,
                             std::optional<Activations> asked, const Resources& resources)
    : packed_(std::make_unique<detail::AnyPacked>(
          stacked, stored_as, asked.value_or(default_activations(stored_as)), resources)),
      type_(stored_as) {}
DECANT_INLINE Matrix::Matrix(const Panels& panels, std::optional<Activations> asked)
    : packed_(std::make_unique<detail::AnyPacked>(
          detail::checked(panels), asked.value_or(default_activations(panels.type)))),
      type_(panels.type) {
  expects(bytes() == panels.bytes, "kernels::Matrix: ", panels.bytes, " bytes of panels of ",
          codec::name(type_), " [", rows(), ", ", columns(), "], which take ", bytes());
}
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

DECANT_INLINE Panels Matrix::panels() const {
  if (empty()) return {};
  return {.type = type_,
          .rows = rows(),
          .columns = columns(),
          .bytes = bytes(),
          .memory = packed_->visit([](const auto& packed) { return packed.memory(); })};
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
