// decant/kernels/detail/norm.hpp - defines kernels/norm.hpp, sixteen lanes at a time.
#pragma once

#include <decant/core/config.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/norm.hpp>
#include <decant/simd/lanes.hpp>

#include <cmath>
#include <functional>
#include <span>

namespace decant::inline DECANT_ABI::kernels {

namespace detail {

// add(sum, lanes) over a row; the lanes beyond its end arrive as `beyond`, which must add nothing.
template <class Add>
float sum_of(std::span<const float> row, float beyond, Add&& add) {
  simd::Lanes sum = simd::broadcast(0.0f);
  simd::for_lanes(std::ssize(row), [&](Index at, Index count) {
    const simd::Lanes value = simd::load_first(row.data() + at, count);
    sum = add(sum, count == kLanes ? value : simd::select_range(value, 0, count, beyond));
  });
  return simd::reduce_add(sum);
}

}  // namespace detail

DECANT_INLINE void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon,
                            std::span<float> out) {
  expects(weight.size() == x.size() && out.size() == x.size(), "kernels::rms_norm: weight of ",
          weight.size(), " and out of ", out.size(), " for a row of ", x.size());
  const float squares =
      detail::sum_of(x, 0.0f, [](const simd::Lanes& sum, const simd::Lanes& value) {
        return simd::madd(value, value, sum);
      });
  const simd::Lanes scale =
      simd::broadcast(1.0f / std::sqrt(squares / static_cast<float>(x.size()) + epsilon));
  simd::for_lanes(std::ssize(x), [&](Index at, Index count) {
    const simd::Lanes value = simd::load_first(x.data() + at, count) * scale;
    simd::store_first(out.data() + at, value * simd::load_first(weight.data() + at, count), count);
  });
}

DECANT_INLINE void layer_norm(std::span<const float> x, std::span<const float> weight,
                              std::span<const float> bias, float epsilon, std::span<float> out) {
  expects(weight.size() == x.size() && out.size() == x.size() &&
              (bias.empty() || bias.size() == x.size()),
          "kernels::layer_norm: weight of ", weight.size(), ", bias of ", bias.size(),
          " and out of ", out.size(), " for a row of ", x.size());
  const auto n = static_cast<float>(x.size());
  const float mean = detail::sum_of(x, 0.0f, std::plus<simd::Lanes>{}) / n;
  const simd::Lanes middle = simd::broadcast(mean);
  const float squares =
      detail::sum_of(x, mean, [&](const simd::Lanes& sum, const simd::Lanes& value) {
        const simd::Lanes distance = value - middle;
        return simd::madd(distance, distance, sum);
      });
  const simd::Lanes scale = simd::broadcast(1.0f / std::sqrt(squares / n + epsilon));
  simd::for_lanes(std::ssize(x), [&](Index at, Index count) {
    const simd::Lanes value = (simd::load_first(x.data() + at, count) - middle) * scale;
    const simd::Lanes shift =
        bias.empty() ? simd::broadcast(0.0f) : simd::load_first(bias.data() + at, count);
    simd::store_first(out.data() + at,
                      simd::madd(value, simd::load_first(weight.data() + at, count), shift), count);
  });
}

}  // namespace decant::inline DECANT_ABI::kernels
