// tests/reference/rope.hpp - rotary positions in double, from the formulas by wavelength.
//
// Only the description (attention::Rope) is shared with the library; frequencies and rotation
// are written again, so that a mistake there is not repeated here.
//
// Source      Su et al. 2021, arXiv:2104.09864; Llama 3.1's published scaling rule
#pragma once

#include "reference/matrix.hpp"

#include <decant/attention/rope.hpp>

#include <cmath>
#include <span>
#include <variant>

namespace decant::reference {

// The angle per token of rotary pair `pair`; the exponent is over rotary_dim, not the head size.
inline double frequency(const attention::Rope& rope, Index rotary_dim, Index pair) {
  const double plain =
      1 / std::pow(rope.theta, static_cast<double>(2 * pair) / static_cast<double>(rotary_dim));
  if (const auto* linear = std::get_if<attention::LinearScaling>(&rope.scaling)) {
    return plain / linear->factor;
  }
  if (const auto* llama3 = std::get_if<attention::Llama3Scaling>(&rope.scaling)) {
    const double wavelength = 2 * std::acos(-1.0) / plain;
    const double longest = llama3->original_positions / llama3->low_frequency_factor;
    const double shortest = llama3->original_positions / llama3->high_frequency_factor;
    if (wavelength < shortest) return plain;
    if (wavelength > longest) return plain / llama3->factor;
    const double weight = (llama3->original_positions / wavelength - llama3->low_frequency_factor) /
                          (llama3->high_frequency_factor - llama3->low_frequency_factor);
    return (1 - weight) * plain / llama3->factor + weight * plain;
  }
  return plain;
}

// Rotates one head at `position`; elements beyond rotary_dim stay as they are.
inline void rotate(std::span<double> head, const attention::Rope& rope, Position position) {
  const Index dim = rope.rotary_dim == 0 ? std::ssize(head) : rope.rotary_dim;
  for (Index pair = 0; pair < dim / 2; ++pair) {
    const bool split = rope.pairing == attention::Pairing::half_split;
    double& a = head[static_cast<std::size_t>(split ? pair : 2 * pair)];
    double& b = head[static_cast<std::size_t>(split ? pair + dim / 2 : 2 * pair + 1)];
    const double angle = static_cast<double>(position) * frequency(rope, dim, pair);
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = rotated;
  }
}

}  // namespace decant::reference
