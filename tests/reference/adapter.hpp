// tests/reference/adapter.hpp - low-rank changes in double, merged into the matrices they change.
//
//   W' = W + scale * B A
//
// Source      Hu et al. 2021, arXiv:2106.09685, section 4.1
#pragma once

#include "reference/model.hpp"

#include <decant/codec/plain.hpp>
#include <decant/model/adapter.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace decant::reference {

// Shape    a [rank, inputs], b [outputs, rank]
struct Change {
  Index layer = 0;
  model::Projection projection = model::Projection::query;
  Matrix a;
  Matrix b;
  double scale = 1;
};
using Changes = std::vector<Change>;

inline Matrix& changed_matrix(Layer& layer, model::Projection projection) {
  switch (projection) {
    case model::Projection::key:
      return layer.key.matrix;
    case model::Projection::value:
      return layer.value.matrix;
    case model::Projection::attention_output:
      return layer.attention_output.matrix;
    case model::Projection::gate:
      return layer.gate.matrix;
    case model::Projection::up:
      return layer.up.matrix;
    case model::Projection::down:
      return layer.down.matrix;
    default:
      return layer.query.matrix;
  }
}

// W += scale * B A, for rows [first, first + W.rows) of B.
inline void merge(Matrix& w, const Change& change, Index first = 0) {
  for (Index row = 0; row < w.rows; ++row) {
    for (Index column = 0; column < w.columns; ++column) {
      double sum = 0;
      for (Index r = 0; r < change.a.rows; ++r) {
        sum += change.b.row(first + row)[static_cast<std::size_t>(r)] *
               change.a.row(r)[static_cast<std::size_t>(column)];
      }
      w.row(row)[static_cast<std::size_t>(column)] += change.scale * sum;
    }
  }
}

inline Model merged(Model model, const Changes& changes) {
  for (const Change& change : changes) {
    Layer& layer = model.layers[static_cast<std::size_t>(change.layer)];
    if (change.projection != model::Projection::qkv) {
      merge(changed_matrix(layer, change.projection), change);
      continue;
    }
    Index first = 0;
    for (Matrix* part : {&layer.query.matrix, &layer.key.matrix, &layer.value.matrix}) {
      merge(*part, change, first);
      first += part->rows;
    }
  }
  return model;
}

// Changes of these projections in every layer, with `ranks` ranks from `rank` on.
inline Changes random_changes(const model::Config& config, std::uint64_t seed, Index rank,
                              std::span<const model::Projection> projections, Index ranks = 5) {
  RandomParts draw(config, seed, {});
  Changes changes;
  Layer shapes = draw.layer();
  for (Index layer = 0; layer < config.layers; ++layer) {
    for (model::Projection projection : projections) {
      const Matrix& shape = changed_matrix(shapes, projection);
      const bool all = projection == model::Projection::qkv;
      const Index outputs = all ? config.qkv_size() : shape.rows;
      const Index own = rank + std::ssize(changes) % ranks;
      changes.push_back(
          {layer, projection, draw.matrix(own, shape.columns), draw.matrix(outputs, own), 0.5});
    }
  }
  return changes;
}

// Every projection that the model has.
inline std::vector<model::Projection> all_projections(const model::Config& config) {
  using enum model::Projection;
  std::vector<model::Projection> all = {query, key, value, attention_output, up, down};
  if (config.gated) all.push_back(gate);
  return all;
}

// The same changes in the library's form, their matrices stored as `type`.
inline model::Adapter to_adapter(const model::Config& config, const Changes& changes,
                                 codec::Type type = codec::Type::f32) {
  std::vector<std::vector<float>> elements;
  std::vector<std::vector<std::uint16_t>> halves;
  std::vector<model::LowRankChange> views;
  const auto view = [&](const Matrix& matrix) {
    elements.push_back(to_float(matrix.cells));
    if (type == codec::Type::f32) {
      return kernels::row_major(elements.back().data(), type, matrix.rows, matrix.columns);
    }
    auto& cells = halves.emplace_back();
    for (float element : elements.back()) {
      cells.push_back(type == codec::Type::bf16
                          ? std::bit_cast<std::uint16_t>(codec::BF16::store(element))
                          : std::bit_cast<std::uint16_t>(codec::F16::store(element)));
    }
    return kernels::row_major(cells.data(), type, matrix.rows, matrix.columns);
  };
  for (const Change& change : changes) {
    views.push_back({change.layer, change.projection, view(change.a), view(change.b),
                     static_cast<float>(change.scale)});
  }
  return {config, views};
}

}  // namespace decant::reference
