// decant/model/adapter.hpp - low-rank changes of a model's projections, for some sequences (LoRA).
//
//   y = W x + scale * B (A x)
//
// A step multiplies all rows with W together, whether they have an adapter or not, and then adds
// to each row what its own sequence's adapter changes. So one model serves many adapters in one
// batch, and a row gets the same bits whatever other sequences there are.
//
// Source      Hu et al. 2021, "LoRA", arXiv:2106.09685
// Tested by   tests/model/adapter_test.cpp, tests/law/adapters_test.cpp
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/model/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::inline DECANT_ABI::model {

// A projection of a layer: a part of one of its products, or `qkv`, three parts as one.
enum class Projection { query, key, value, qkv, attention_output, gate, up, down };

// W becomes W + scale * b * a in one projection of one layer. The matrices are borrowed.
//
// Shape    a [rank, inputs], b [outputs, rank]
struct LowRankChange {
  Index layer = 0;
  Projection projection = Projection::query;
  kernels::MatrixView a;
  kernels::MatrixView b;
  float scale = 1.0f;
};

namespace detail {

// The four products of a layer, as model::LayerWeights stacks them.
enum class LayerProduct { qkv, attention_output, up, down };

// A change of outputs [first_output, first_output + b.rows()) of a product.
struct PackedChange {
  kernels::Matrix a;
  kernels::Matrix b;
  float scale;
  Index first_output;
};

}  // namespace detail

// What is changed in all layers. Changes of the same outputs add up.
//
// Errors   the constructor: std::invalid_argument (a layer or projection that the model lacks,
//          matrices of other shapes, a rank above the model's widest row, a scale that is not
//          finite), std::bad_alloc
// Cost     matrices are stored in the format of their views, and widened to f32 in products. A row
//          takes rank * (inputs + outputs) multiply-adds for each change
// Threads  const after construction
class Adapter {
 public:
  Adapter(const Config& config, std::span<const LowRankChange> changes);

  // Of the model that it was made for.
  const Config& config() const noexcept { return config_; }
  // A hash of all changes, never 0: equal adapters have equal ones, in every run of a program.
  std::uint64_t id() const noexcept { return id_; }
  // Of all matrices.
  Index bytes() const noexcept;

  std::span<const detail::PackedChange> changes(Index layer,
                                                detail::LayerProduct product) const noexcept {
    return layers_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(product)];
  }

 private:
  using Layer = std::array<std::vector<detail::PackedChange>, 4>;

  Config config_;
  std::vector<Layer> layers_;
  std::uint64_t id_;
};

}  // namespace decant::inline DECANT_ABI::model

#if !defined(DECANT_COMPILED)
#include <decant/model/detail/adapter.hpp>
#endif
