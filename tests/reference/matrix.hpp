// tests/reference/matrix.hpp - a row-major matrix in double, and y = W x + b as plain loops.
//
// Everything in this folder is written to be checked by eye, not to be quick: one loop per index
// of the formula, double throughout, and nothing of the library's kernels.
#pragma once

#include <decant/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace decant::reference {

using Vector = std::vector<double>;

// Shape    [rows][columns], row-major
struct Matrix {
  Index rows = 0;
  Index columns = 0;
  Vector cells;

  Matrix() = default;
  Matrix(Index row_count, Index column_count)
      : rows(row_count),
        columns(column_count),
        cells(static_cast<std::size_t>(row_count * column_count)) {}

  bool empty() const { return cells.empty(); }
  std::span<double> row(Index r) {
    return std::span(cells).subspan(static_cast<std::size_t>(r * columns),
                                    static_cast<std::size_t>(columns));
  }
  std::span<const double> row(Index r) const {
    return std::span(cells).subspan(static_cast<std::size_t>(r * columns),
                                    static_cast<std::size_t>(columns));
  }
};

// y = matrix * x + bias
//
// Shape    matrix [outputs, inputs]; bias [outputs], or empty for none
struct Linear {
  Matrix matrix;
  Vector bias;

  bool empty() const { return matrix.empty(); }
};

inline double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Shape    x [inputs]; the result [outputs]
inline Vector apply(const Linear& linear, std::span<const double> x) {
  Vector y(static_cast<std::size_t>(linear.matrix.rows));
  for (std::size_t r = 0; r < y.size(); ++r) {
    y[r] = dot(linear.matrix.row(static_cast<Index>(r)), x);
    if (!linear.bias.empty()) y[r] += linear.bias[r];
  }
  return y;
}

// The same for every row of x: [tokens, inputs] to [tokens, outputs].
inline Matrix apply_rows(const Linear& linear, const Matrix& x) {
  Matrix y(x.rows, linear.matrix.rows);
  for (Index r = 0; r < x.rows; ++r) {
    const Vector out = apply(linear, x.row(r));
    std::copy(out.begin(), out.end(), y.row(r).begin());
  }
  return y;
}

inline std::vector<float> to_float(std::span<const double> x) {
  std::vector<float> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = static_cast<float>(x[i]);
  return result;
}

inline Vector to_double(std::span<const float> x) { return Vector(x.begin(), x.end()); }

// The largest |a - b|; NaN where any is NaN or the sizes differ, so that a comparison fails.
template <class A, class B>
double max_difference(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::nan("");
  double worst = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return difference;
    worst = std::max(worst, difference);
  }
  return worst;
}

}  // namespace decant::reference
