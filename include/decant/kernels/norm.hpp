// decant/kernels/norm.hpp - root-mean-square and layer normalisation of one row.
//
// Both add in sixteen lanes, number i into lane i mod 16, and then along one fixed tree: the sum of
// a row has one order on every machine.
//
// Depends on  core/error.hpp, core/simd.hpp
// Source      Zhang and Sennrich 2019, arXiv:1910.07467; Ba et al. 2016, arXiv:1607.06450
// Tested by   tests/kernels/norm_test.cpp, against tests/reference/norm.hpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/simd.hpp>
#include <decant/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace decant::inline v0::kernels {

namespace detail {

// add(sum, lanes) over a row; the lanes beyond its end arrive as `beyond`, which must add nothing.
template <class Add>
float sum_of(std::span<const float> row, float beyond, Add&& add) {
  Lanes sum = broadcast(0.0f);
  for_lanes(std::ssize(row), [&](Index at, Index count) {
    const Lanes value = load_first(row.data() + at, count);
    sum = add(sum, count == kLanes ? value : keep(value, 0, count, beyond));
  });
  return reduce_add(sum);
}

}  // namespace detail

// out = x / sqrt(mean(x²) + epsilon) * weight
//
// Shape    x, weight and out are [n]; out may be x
// Errors   std::invalid_argument when the sizes differ
inline void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon,
                     std::span<float> out) {
  expects(weight.size() == x.size() && out.size() == x.size(), "kernels::rms_norm: weight of ",
          weight.size(), " and out of ", out.size(), " for a row of ", x.size());
  const float squares = detail::sum_of(
      x, 0.0f, [](const Lanes& sum, const Lanes& value) { return madd(value, value, sum); });
  const Lanes scale = broadcast(1.0f / std::sqrt(squares / static_cast<float>(x.size()) + epsilon));
  for_lanes(std::ssize(x), [&](Index at, Index count) {
    const Lanes value = load_first(x.data() + at, count) * scale;
    store_first(out.data() + at, value * load_first(weight.data() + at, count), count);
  });
}

// out = (x - mean) / sqrt(variance + epsilon) * weight + bias
//
// Shape    x, weight and out are [n]; bias is [n] or empty; out may be x
// Errors   std::invalid_argument when the sizes differ
inline void layer_norm(std::span<const float> x, std::span<const float> weight,
                       std::span<const float> bias, float epsilon, std::span<float> out) {
  expects(weight.size() == x.size() && out.size() == x.size() &&
              (bias.empty() || bias.size() == x.size()),
          "kernels::layer_norm: weight of ", weight.size(), ", bias of ", bias.size(),
          " and out of ", out.size(), " for a row of ", x.size());
  const auto n = static_cast<float>(x.size());
  const float mean = detail::sum_of(x, 0.0f, std::plus<Lanes>{}) / n;
  const Lanes middle = broadcast(mean);
  const float squares = detail::sum_of(x, mean, [&](const Lanes& sum, const Lanes& value) {
    const Lanes distance = value - middle;
    return madd(distance, distance, sum);
  });
  const Lanes scale = broadcast(1.0f / std::sqrt(squares / n + epsilon));
  for_lanes(std::ssize(x), [&](Index at, Index count) {
    const Lanes value = (load_first(x.data() + at, count) - middle) * scale;
    const Lanes shift = bias.empty() ? broadcast(0.0f) : load_first(bias.data() + at, count);
    store_first(out.data() + at, madd(value, load_first(weight.data() + at, count), shift), count);
  });
}

}  // namespace decant::inline v0::kernels
