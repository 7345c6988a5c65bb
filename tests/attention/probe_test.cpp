// tests/attention/probe_test.cpp - which keys a row sees, read off exactly.
//
// All queries are zero, so that every visible key weighs the same, and values are unit vectors, one
// dimension per position: an output row is 1/n at the n positions seen, and 0 elsewhere.
#include "attention/run.hpp"
#include "reference/model.hpp"

#include <decant/kv/ring.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

using namespace decant;
using attention::Bidirectional;
using attention::Causal;
using reference::Matrix;
using Set = std::vector<Position>;

constexpr Index kKeyDim = 4;

Matrix noisy(Index rows, Index columns, std::uint64_t seed) {
  Matrix result(rows, columns);
  for (double& cell : result.cells) cell = 2 * reference::noise(seed++);
  return result;
}

Matrix unit_values(Index rows, Index slots) {
  Matrix result(rows, slots);
  for (Index i = 0; i < rows; ++i) result.row(i)[static_cast<std::size_t>(i)] = 1.0;
  return result;
}

// A store of `capacity` slots that holds positions [0, end), poisoned elsewhere.
kv::Contiguous<codec::F32> probe_store(Index end, Index capacity) {
  return trial::store_of(1, noisy(end, kKeyDim, 99), unit_values(end, capacity), capacity);
}

// What each row saw. Fails where a visible key does not weigh 1/n.
std::vector<Set> seen_by(const trial::Attended& result) {
  const std::size_t rows = result.log_sum_exp.size();
  const std::size_t slots = result.output.size() / rows;
  std::vector<Set> sets(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto output = std::span(result.output).subspan(row * slots, slots);
    for (std::size_t slot = 0; slot < slots; ++slot) {
      if (output[slot] != 0.0f) sets[row].push_back(static_cast<Position>(slot));
    }
    const auto count = static_cast<float>(sets[row].size());
    for (Position slot : sets[row]) {
      EXPECT_NEAR(output[static_cast<std::size_t>(slot)], 1 / count, 1e-7 / count);
    }
    if (count == 0) {
      EXPECT_EQ(result.log_sum_exp[row], -std::numeric_limits<float>::infinity());
    } else {
      EXPECT_NEAR(result.log_sum_exp[row], std::log(count), 1e-6);
    }
  }
  return sets;
}

template <attention::Mask M>
std::vector<Set> probe(const kv::Contiguous<codec::F32>& store, Position first, Index rows,
                       const M& mask) {
  return seen_by(trial::attend(store, first, Matrix(rows, kKeyDim), 1, 1.0, mask));
}

Set from_to(Position begin, Position end) {
  Set set;
  for (Position at = begin; at < end; ++at) set.push_back(at);
  return set;
}

TEST(Probe, NewRowsSeeThePastAndThemselves) {
  for (Index past : {0, 1, 5, 31, 32, 33}) {
    for (Index rows : {1, 2, 3, 8, 33}) {
      const auto store = probe_store(past + rows, 80);
      const std::vector<Set> sets = probe(store, past, rows, Causal{});
      for (Index i = 0; i < rows; ++i) {
        EXPECT_EQ(sets[static_cast<std::size_t>(i)], from_to(0, past + i + 1))
            << past << " + " << rows << ", row " << i;
      }
    }
  }
}

TEST(Probe, CachedRowsEqualTheRowsOfOneCallBitForBit) {
  const Matrix queries = noisy(66, 2 * kKeyDim, 7);
  const auto store = trial::store_of(1, noisy(66, kKeyDim, 99), noisy(66, 24, 5), 80);
  const trial::Attended all = trial::attend(store, 0, queries, 2, 0.5, Causal{});
  for (Index past : {0, 1, 5, 31, 32, 33}) {
    for (Index rows : {1, 2, 3, 8, 33}) {
      Matrix some(rows, queries.columns);
      const auto from = queries.cells.begin() + past * queries.columns;
      some.cells.assign(from, from + rows * queries.columns);
      const trial::Attended part = trial::attend(store, past, some, 2, 0.5, Causal{});
      const auto expected = all.output.begin() + past * 48;
      EXPECT_EQ(part.output, std::vector<float>(expected, expected + rows * 48));
    }
  }
}

TEST(Probe, AWindowHoldsTheRowItselfAndThoseBeforeIt) {
  const auto store = probe_store(150, 150);
  for (Position window : {1, 2, 4, 15, 16, 17, 64, 65, 200}) {
    const std::vector<Set> sets = probe(store, 0, 150, Causal{window});
    for (Position at = 0; at < 150; ++at) {
      EXPECT_EQ(sets[static_cast<std::size_t>(at)],
                from_to(std::max<Position>(0, at - window + 1), at + 1))
          << "window " << window << ", position " << at;
    }
  }
}

// The next `rows` rows of a ring and what each sees; slot s stands for all positions equal to s
// modulo 64.
std::vector<Set> next_in_ring(kv::Ring<codec::F32>& ring, Index rows, Position window) {
  const Position first = ring.end();
  const Matrix keys = noisy(rows, kKeyDim, 99 + static_cast<std::uint64_t>(first));
  ring.reserve(rows);
  for (Index i = 0; i < rows; ++i) {
    std::vector<float> value(64);
    value[static_cast<std::size_t>((first + i) % 64)] = 1.0f;
    ring.put(0, 0, first + i, reference::to_float(keys.row(i)), value);
  }
  ring.publish(rows);
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<float> queries(count * kKeyDim);
  trial::Attended result{std::vector<float>(count * 64, trial::kNaN), std::vector<float>(count)};
  const attention::Sequence<kv::Ring<codec::F32>> sequence = {
      &ring, first, rows, queries.data(), result.output.data(), result.log_sum_exp.data()};
  attention::Scratch scratch(ring.geometry(), 1, 1, 1, 64);
  attention::attend(std::span(&sequence, 1),
                    {.layer = 0, .heads = 1, .query_stride = kKeyDim, .out_stride = 64},
                    Causal{window}, attention::Plain{}, scratch, serial_executor());
  return seen_by(result);
}

// In whatever steps tokens come, each row of a ring sees its whole window: only rows that no window
// needs are overwritten. Panels of 16 tokens are larger than the first windows.
TEST(Probe, RowsOfARingSeeTheirWindowHoweverTheyCome) {
  const std::vector<std::vector<Index>> cuts = {{1},
                                                {3},
                                                {4},
                                                {5},
                                                {8, 8},
                                                {16},
                                                {2, 1, 1, 1, 1, 1, 1},
                                                {3, 5},
                                                {7, 1},
                                                {6, 4, 4, 4},
                                                {1, 1, 4, 1, 2, 15, 16, 17}};
  for (const std::vector<Index>& cut : cuts) {
    for (Position window : {1, 2, 4, 8, 16, 33}) {
      kv::Ring<codec::F32> ring({1, 1, kKeyDim, 64}, window, std::ranges::max(cut));
      const Index bytes = ring.bytes();
      for (std::size_t n = 0; ring.end() < 200; ++n) {
        const Position first = ring.end();
        const std::vector<Set> sets = next_in_ring(ring, cut[n % cut.size()], window);
        for (Position at = first; at < ring.end(); ++at) {
          Set expected;
          for (Position key = std::max<Position>(0, at - window + 1); key <= at; ++key) {
            expected.push_back(key % 64);
          }
          std::ranges::sort(expected);
          ASSERT_EQ(sets[static_cast<std::size_t>(at - first)], expected)
              << "window " << window << ", position " << at << " of a step of "
              << cut[n % cut.size()];
        }
      }
      EXPECT_EQ(ring.bytes(), bytes);
    }
  }
}

TEST(Probe, BidirectionalRowsSeeEveryKeyGiven) {
  const auto store = probe_store(70, 80);
  for (const Set& set : probe(store, 0, 3, Bidirectional{70})) EXPECT_EQ(set, from_to(0, 70));
}

// The position of row 0 says how queries and keys are aligned; shapes do not.
TEST(Probe, FewerRowsThanKeysAreAlignedByTheFirstPosition) {
  const auto five = probe_store(5, 8);
  EXPECT_EQ(probe(five, 3, 2, Causal{}), (std::vector<Set>{from_to(0, 4), from_to(0, 5)}));
  EXPECT_EQ(probe(five, 0, 2, Causal{}), (std::vector<Set>{{0}, {0, 1}}));
  const auto one = probe_store(1, 8);
  EXPECT_EQ(probe(one, 1 - 2, 2, Causal{}), (std::vector<Set>{{}, {0}}));
}

TEST(Probe, RowsBeforeTheFirstKeyGiveZeroAndMinusInfinity) {
  const auto store = probe_store(2, 16);
  EXPECT_EQ(probe(store, -2, 4, Causal{}), (std::vector<Set>{{}, {}, {0}, {0, 1}}));
}

TEST(Probe, RowsWhoseKeysAreAllHiddenGiveZeroAndMinusInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto store = probe_store(40, 48);
  std::vector<float> bias(2 * 40, -infinity);
  bias[40 + 33] = 0.0f;
  const trial::Attended result =
      trial::attend(store, 0, Matrix(2, kKeyDim), 1, 1.0, Bidirectional{40},
                    attention::Bias{.bias = bias.data(), .row_stride = 40});
  EXPECT_EQ(seen_by(result), (std::vector<Set>{{}, {33}}));
}

TEST(Probe, SequencesOfUnequalLengthNeverReadUnwrittenSlots) {
  for (const auto& [a, b] : std::vector<std::pair<Index, Index>>{{3, 7}, {0, 7}, {7, 0}, {1, 1}}) {
    const auto store_a = trial::store_of(2, noisy(a + 1, 8, 1), noisy(a + 1, 6, 2), 8);
    const auto store_b = trial::store_of(2, noisy(b + 1, 8, 3), noisy(b + 1, 6, 4), 8);
    const Matrix query_a = noisy(1, 16, 5);
    const Matrix query_b = noisy(1, 16, 6);
    const auto both = trial::attend<codec::F32>({{&store_a, a, query_a}, {&store_b, b, query_b}}, 4,
                                                0.5, Causal{});
    const auto alone_a = trial::attend(store_a, a, query_a, 4, 0.5, Causal{});
    const auto alone_b = trial::attend(store_b, b, query_b, 4, 0.5, Causal{});
    for (float number : both[0].output) EXPECT_TRUE(std::isfinite(number));
    for (float number : both[1].output) EXPECT_TRUE(std::isfinite(number));
    EXPECT_EQ(both[0].output, alone_a.output);
    EXPECT_EQ(both[1].output, alone_b.output);
  }
}

TEST(Probe, ConsecutiveQueryHeadsShareAKeyHead) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<Index, Index>>{
           {4, 2}, {6, 2}, {6, 3}, {32, 8}, {28, 4}, {5, 1}, {7, 7}}) {
    Matrix values(3, kv_heads);
    for (Index at = 0; at < 3; ++at) {
      for (Index g = 0; g < kv_heads; ++g) {
        values.row(at)[static_cast<std::size_t>(g)] = static_cast<double>(g + 1);
      }
    }
    const auto store = trial::store_of(kv_heads, noisy(3, kv_heads * kKeyDim, 1), values, 16);
    const auto result = trial::attend(store, 2, noisy(1, heads * kKeyDim, 9), heads, 1.0, Causal{});
    for (Index h = 0; h < heads; ++h) {
      EXPECT_NEAR(result.output[static_cast<std::size_t>(h)],
                  static_cast<double>(h / (heads / kv_heads) + 1), 1e-5)
          << "head " << h << " of " << heads << " on " << kv_heads;
    }
  }
}

TEST(Probe, RefusesHeadsThatKeyHeadsDoNotDivide) {
  const auto store = trial::store_of(2, noisy(3, 2 * kKeyDim, 1), noisy(3, 2, 2), 16);
  EXPECT_THROW(trial::attend(store, 0, Matrix(1, 5 * kKeyDim), 5, 1.0, Causal{}),
               std::invalid_argument);
}

// Both products are beyond what a 16-bit float can hold.
template <codec::Codec C>
void expect_large_scores_exact() {
  Matrix keys(2, 128);
  for (double& cell : keys.cells) cell = 24;
  keys.row(1)[0] = 23.5;
  Matrix values(2, 1);
  values.row(0)[0] = 1;
  Matrix queries(1, 128);
  for (double& cell : queries.cells) cell = 24;
  const auto store = trial::store_of<C>(1, keys, values, 16);
  const auto result = trial::attend(store, 1, queries, 1, 1 / std::sqrt(128.0), Causal{});
  const double larger = 73728 / std::sqrt(128.0);  // near 6517, where floats are 2^-11 apart
  EXPECT_NEAR(result.output[0], 0.742817, 4 * 0x1p-11);
  EXPECT_NEAR(result.log_sum_exp[0] / (larger + std::log1p(std::exp(-1.060660))), 1, 2e-6);
}

TEST(Probe, ProductsBeyondHalfPrecisionAreToldApart) {
  expect_large_scores_exact<codec::F32>();
  expect_large_scores_exact<codec::BF16>();
  expect_large_scores_exact<codec::F16>();
}

}  // namespace
