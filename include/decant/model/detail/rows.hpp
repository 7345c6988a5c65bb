// decant/model/detail/rows.hpp - work on the rows of a step, one by one.
//
// Tested by   tests/model/step_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/shape.hpp>
#include <decant/core/types.hpp>
#include <decant/model/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace decant::inline DECANT_ABI::model::detail {

template <class T>
std::span<T> elements(T* data, Index size) {
  return {data, static_cast<std::size_t>(size)};
}

// work(row) for every row, in pieces of a few rows.
template <class F>
void for_rows(Index rows, Executor& executor, F&& work) {
  constexpr Index kRows = 8;
  executor.parallel_for(ceil_div(rows, kRows), [&](Index piece, Index) {
    for (Index row = piece * kRows; row < std::min(rows, (piece + 1) * kRows); ++row) work(row);
  });
}

// What operations on f32 rows cost: `size` elements of each are read or written.
inline Work row_work(Index rows, Index size, double flops_per_element) {
  const auto all = static_cast<double>(rows) * static_cast<double>(size);
  return {.bytes = 4 * all, .flops = flops_per_element * all};
}

}  // namespace decant::inline DECANT_ABI::model::detail
