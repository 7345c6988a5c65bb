// decant/attention/rope.hpp - rotary position embeddings: pairs of dimensions, angles, rotation.
//
// A rotary pair (a, b) of dimensions of a query or key at position p is rotated by p * frequency.
// Keys are rotated once, before they are stored. Angles are computed in double and rounded once, as
// cosine and sine, so that a far position is as exact as a near one.
//
// Source      Su et al. 2021, "RoFormer", arXiv:2104.09864; the llama3 rule is that of
//             Llama 3.1's published `apply_scaling`
// Tested by   tests/attention/rope_test.cpp
#pragma once

#include <decant/core/error.hpp>
#include <decant/core/types.hpp>

#include <cmath>
#include <span>
#include <variant>
#include <vector>

namespace decant::inline DECANT_ABI::attention {

// Half-split pairs (i, i + rotary_dim / 2), interleaved pairs (2i, 2i + 1). Checkpoints in
// Hugging Face layout are half-split.
enum class Pairing { half_split, interleaved };

struct Unscaled {
  friend bool operator==(const Unscaled&, const Unscaled&) = default;
};

// Every frequency divided by `factor`.
struct LinearScaling {
  double factor = 1.0;

  friend bool operator==(const LinearScaling&, const LinearScaling&) = default;
};

// Frequencies of long wavelengths divided by `factor`, of short ones unchanged, between them
// blended.
struct Llama3Scaling {
  double factor = 8.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_positions = 8192.0;

  friend bool operator==(const Llama3Scaling&, const Llama3Scaling&) = default;
};

using Scaling = std::variant<Unscaled, LinearScaling, Llama3Scaling>;

struct Rope {
  Index rotary_dim = 0;  // leading dimensions that are rotated; 0 means all of a head
  double theta = 10000.0;
  Pairing pairing = Pairing::half_split;
  Scaling scaling = Unscaled{};

  // How many dimensions of a head are rotated.
  Index dim(Index head_dim) const noexcept { return rotary_dim == 0 ? head_dim : rotary_dim; }

  friend bool operator==(const Rope&, const Rope&) = default;
};

// Refuses invalid rotations.
//
// Errors   std::invalid_argument naming the field and its value
inline void check(const Rope& rope, Index head_dim) {
  const Index dim = rope.dim(head_dim);
  expects(dim > 0 && dim <= head_dim && dim % 2 == 0, "attention::Rope: rotary_dim ", dim,
          " is odd or outside a head of ", head_dim);
  expects(std::isfinite(rope.theta) && rope.theta > 0, "attention::Rope: theta is ", rope.theta);
  if (const auto* linear = std::get_if<LinearScaling>(&rope.scaling)) {
    expects(std::isfinite(linear->factor) && linear->factor > 0,
            "attention::Rope: scaling factor is ", linear->factor);
  }
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&rope.scaling)) {
    expects(std::isfinite(llama3->factor) && llama3->factor > 0,
            "attention::Rope: scaling factor is ", llama3->factor);
    expects(llama3->original_positions > 0, "attention::Rope: original positions are ",
            llama3->original_positions);
    expects(llama3->high_frequency_factor > llama3->low_frequency_factor,
            "attention::Rope: high_freq_factor ", llama3->high_frequency_factor,
            " is not above low_freq_factor ", llama3->low_frequency_factor);
  }
}

namespace detail {

inline double scaled(double frequency, const Unscaled&) { return frequency; }
inline double scaled(double frequency, const LinearScaling& scaling) {
  return frequency / scaling.factor;
}
inline double scaled(double frequency, const Llama3Scaling& scaling) {
  constexpr double kTurn = 6.283185307179586;
  const double turns = scaling.original_positions * frequency / kTurn;  // in the trained length
  const double weight = (turns - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  if (weight >= 1) return frequency;
  if (weight <= 0) return frequency / scaling.factor;
  return std::fma(weight, frequency, (1 - weight) * frequency / scaling.factor);
}

}  // namespace detail

// The angle per position of each rotary pair.
//
// Shape    [rotary_dim / 2]; the exponent's denominator is rotary_dim, not the head
// Units    radians per token
// Errors   as check()
inline std::vector<double> frequencies(const Rope& rope, Index head_dim) {
  check(rope, head_dim);
  const Index dim = rope.dim(head_dim);
  std::vector<double> result(static_cast<std::size_t>(dim / 2));
  for (Index pair = 0; pair < dim / 2; ++pair) {
    const double plain =
        std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
    result[static_cast<std::size_t>(pair)] = std::visit(
        [&](const auto& scaling) { return detail::scaled(plain, scaling); }, rope.scaling);
  }
  return result;
}

// Cosine and sine of every rotary pair at one position.
//
// Shape    cosines and sines are [frequencies.size()]
inline void angles(Position position, std::span<const double> frequencies, std::span<float> cosines,
                   std::span<float> sines) {
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    const double angle = static_cast<double>(position) * frequencies[pair];
    cosines[pair] = static_cast<float>(std::cos(angle));
    sines[pair] = static_cast<float>(std::sin(angle));
  }
}

// Rotates the leading 2 * cosines.size() elements of one head in place; the rest is unchanged.
//
// Shape    head is [head_dim]; cosines and sines are [rotary_dim / 2]
// Errors   std::invalid_argument if the head is shorter than what is rotated
inline void rotate(std::span<float> head, std::span<const float> cosines,
                   std::span<const float> sines, Pairing pairing) {
  const std::size_t pairs = cosines.size();
  expects(sines.size() == pairs && head.size() >= 2 * pairs, "attention::rotate: ", pairs,
          " pairs in a head of ", head.size());
  const bool split = pairing == Pairing::half_split;
  const std::size_t step = split ? 1 : 2;
  const std::size_t partner = split ? pairs : 1;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    float& a = head[pair * step];
    float& b = head[pair * step + partner];
    const float rotated = std::fma(a, cosines[pair], -(b * sines[pair]));
    b = std::fma(a, sines[pair], b * cosines[pair]);
    a = rotated;
  }
}

}  // namespace decant::inline DECANT_ABI::attention
