// decant/core/random.hpp - counter-based random numbers: a function of seed and position.
//
// A draw is Philox4x32-10 of (seed, sequence, position). There is no state to carry, save or
// share, so a sampled token does not depend on its neighbours in a batch, on a preemption, or on
// how often the step was tried; the bits are the same on every platform.
//
// Source      Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11
// Tested by   tests/core/random_test.cpp, against the authors' published vectors
#pragma once

#include <decant/core/types.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace decant::inline DECANT_ABI {

// Ten rounds of Philox4x32: four random words from a counter and a key.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// The draw of `sequence` at `position` under `seed`: uniform in [0, 1), a multiple of 2^-53. A
// position has several independent draws, numbered by `which`.
constexpr double uniform(std::uint64_t seed, std::uint64_t sequence, Position position,
                         std::size_t which = 0) noexcept {
  // A counter gives two draws; those beyond have counters above any position.
  const std::uint64_t place = static_cast<std::uint64_t>(position) | std::uint64_t{which / 2} << 56;
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  const std::array<std::uint32_t, 4> words =
      philox({low(place), high(place), low(sequence), high(sequence)}, {low(seed), high(seed)});
  const std::size_t at = 2 * (which % 2);
  const std::uint64_t bits = (std::uint64_t{words[at + 1]} << 32 | words[at]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace decant::inline DECANT_ABI
