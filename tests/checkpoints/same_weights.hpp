// tests/checkpoints/same_weights.hpp - whether two models have the same parameters, byte for byte.
#pragma once

#include <decant/checkpoints/detail/packed_checkpoint.hpp>
#include <decant/kernels/matrix.hpp>
#include <decant/model/weights.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace decant::trial {

inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
inline std::string bytes_of(const kernels::Matrix& matrix) {
  const kernels::Panels panels = matrix.panels();
  return sentence(codec::name(panels.type), " ", static_cast<int>(matrix.activations()), " ",
                  panels.rows, " ", panels.columns, " ")
      .append(reinterpret_cast<const char*>(panels.memory.get()),
              static_cast<std::size_t>(panels.bytes));
}

inline ::testing::AssertionResult same_weights(const model::Weights& one,
                                               const model::Weights& other) {
  std::map<std::string, std::string> parts;
  checkpoints::detail::for_each_parameter(
      one, [&](const std::string& name, const auto& part) { parts[name] = bytes_of(part); });
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  checkpoints::detail::for_each_parameter(other, [&](const std::string& name, const auto& part) {
    if (parts[name] != bytes_of(part)) result = ::testing::AssertionFailure() << name << " differs";
    parts.erase(name);
  });
  return parts.empty() ? result : ::testing::AssertionFailure() << "one has more parts";
}

}  // namespace decant::trial
