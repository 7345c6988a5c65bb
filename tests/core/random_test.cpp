// The generator against its authors' published answers, and the draw against its own contract.
#include <decant/core/random.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>

namespace decant {
namespace {

using Words = std::array<std::uint32_t, 4>;

constexpr std::uint32_t kOnes = 0xFFFFFFFF;

// Known answers that come with Random123, the authors' own library.
static_assert(philox({0, 0, 0, 0}, {0, 0}) ==
              Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
static_assert(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
              Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
static_assert(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
              Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});

TEST(Philox, GivesThePublishedAnswersAtRunTimeToo) {
  volatile std::uint32_t zero = 0;
  const std::uint32_t z = zero;
  EXPECT_EQ(philox({z, z, z, z}, {z, z}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
}

TEST(Philox, OneBitOfCounterOrKeyChangesEveryWord) {
  const Words plain = philox({7, 8, 9, 10}, {11, 12});
  for (std::size_t word = 0; word < 4; ++word) {
    Words counter = {7, 8, 9, 10};
    counter[word] ^= 1;
    const Words other = philox(counter, {11, 12});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(plain[i], other[i]) << word;
  }
  EXPECT_NE(plain, philox({7, 8, 9, 10}, {10, 12}));
  EXPECT_NE(plain, philox({7, 8, 9, 10}, {11, 13}));
}

TEST(Uniform, IsTheFirstTwoWordsAs53Bits) {
  const std::uint64_t word = std::uint64_t{0xE169C58D} << 32 | 0x6627E8D5;
  EXPECT_EQ(uniform(0, 0, 0), static_cast<double>(word >> 11) / 9007199254740992.0);
}

TEST(Uniform, PutsPositionSequenceAndSeedIntoTheirOwnWords) {
  const std::uint64_t seed = 0x0123456789ABCDEF;
  const std::uint64_t sequence = 0xFEDCBA9876543210;
  const Position position = 0x7000000100000003;
  const Words words =
      philox({0x00000003, 0x70000001, 0x76543210, 0xFEDCBA98}, {0x89ABCDEF, 0x01234567});
  const std::uint64_t word = std::uint64_t{words[1]} << 32 | words[0];
  EXPECT_EQ(uniform(seed, sequence, position), static_cast<double>(word >> 11) * 0x1p-53);
}

TEST(Uniform, DoesNotRepeatBetweenNeighbours) {
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t sequence = 0; sequence < 8; ++sequence) {
      for (Position position = 0; position < 8; ++position) {
        for (std::size_t which = 0; which < 4; ++which) {
          seen.insert(uniform(seed, sequence, position, which));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2048u);
}

// Chi-square over 64 cells: 63 degrees of freedom exceed 110 in about 2 of 10,000 samples; the
// sample is fixed, so the test is deterministic.
TEST(Uniform, FillsTheUnitIntervalEvenly) {
  constexpr int kDraws = 64 * 1000;
  std::array<int, 64> cells{};
  for (Position position = 0; position < kDraws; ++position) {
    const double u = uniform(2024, 3, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++cells[static_cast<std::size_t>(u * 64)];
  }
  double chi_square = 0;
  for (int count : cells) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 110.0);
  EXPECT_GT(chi_square, 30.0);
}

}  // namespace
}  // namespace decant
