// decant/kernels/matrix.hpp - a matrix of weights, packed for products, in a format known at run
// time.
//
// A checkpoint decides in which format its weights are stored. The format is looked up once per
// product; the kernels below are compiled for one format each (kernels/detail/product.hpp).
//
// Tested by   tests/kernels/matrix_test.cpp
#pragma once

#include <decant/codec/type.hpp>
#include <decant/core/config.hpp>
#include <decant/core/executor.hpp>
#include <decant/core/resources.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kernels/row_tiles.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

namespace detail {
class AnyPacked;
}

// The panels of a matrix, as they lie in memory: what a program may write to a file and map again.
// They are the same on all machines.
//
// Shape    memory is [bytes], aligned to kPanelAlignment; bytes follow from the rest
struct Panels {
  codec::Type type = codec::Type::f32;
  Index rows = 0;
  Index columns = 0;
  Index bytes = 0;
  std::shared_ptr<const std::byte> memory;
};
inline constexpr Index kPanelAlignment = 64;  // bytes

// Move-only.
//
// Errors   std::invalid_argument (extents, views that do not stack), std::bad_alloc from the
//          constructors; an empty matrix has no rows and no columns
// Threads  const after construction
class Matrix {
 public:
  Matrix() noexcept;
  explicit Matrix(const MatrixView& view);
  // The rows of all views, one below the other. Activations are default_activations() unless the
  // caller asks otherwise; beside bf16 they stay full on a machine without an instruction for bf16
  // products.
  Matrix(std::span<const MatrixView> stacked, codec::Type stored_as,
         std::optional<Activations> asked = std::nullopt, const Resources& resources = {});
  // Panels of another matrix, which are not copied: it holds their memory.
  //
  // Errors   std::invalid_argument (extents, a number of bytes that does not follow from them, an
  //          alignment)
  explicit Matrix(const Panels& panels, std::optional<Activations> asked = std::nullopt);
  Matrix(Matrix&& other) noexcept;
  Matrix& operator=(Matrix&& other) noexcept;
  ~Matrix();

  bool empty() const noexcept;
  codec::Type type() const noexcept { return type_; }
  // What a product does to its rows; full if the matrix is empty.
  Activations activations() const noexcept;
  Index rows() const noexcept;
  Index columns() const noexcept;
  Index bytes() const noexcept;
  // Its panels, which live as long as any of their owners; without memory if it is empty.
  Panels panels() const;

  // Shape    out is [columns]
  // Errors   std::invalid_argument (no such row, another size)
  void row(Index at, std::span<float> out) const;

  // Multiplies as `product` says. An output depends on its own row of `in` alone, bit for bit.
  //
  // Errors   std::invalid_argument for an empty matrix, and for tiles without room; nothing changed
  // Cost     product.rows * rows() * columns() multiply-adds; allocates nothing
  // Threads  the matrix may be shared; tiles and `out` belong to the call
  void multiply(const Product& product, RowTiles& tiles, Executor& executor) const;

 private:
  std::unique_ptr<const detail::AnyPacked> packed_;
  codec::Type type_ = codec::Type::f32;
};

}  // namespace decant::inline DECANT_ABI::kernels

#if !defined(DECANT_COMPILED)
#include <decant/kernels/detail/matrix.hpp>
#endif
