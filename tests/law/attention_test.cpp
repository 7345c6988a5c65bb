// tests/law/attention_test.cpp - attention alone: a row's bits depend on its own sequence only.
#include "attention/run.hpp"
#include "law/bits.hpp"
#include "law/executors.hpp"

#include <decant/attention/attend.hpp>
#include <decant/core/thread_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace decant;
using attention::Causal;
using reference::Matrix;
using trial::Attended;
using trial::noisy_rows;

Matrix rows_of(const Matrix& all, Index first, Index rows) {
  Matrix some(rows, all.columns);
  std::copy_n(all.cells.begin() + first * all.columns, rows * all.columns, some.cells.begin());
  return some;
}

// One sequence: keys, values and a query at every position.
template <class C>
struct Sequence {
  Sequence(Index heads, Index kv_heads, Index key_dim, Index value_dim, Index length,
           std::uint64_t seed)
      : queries(noisy_rows(length, heads * key_dim, seed)),
        keys(noisy_rows(length, kv_heads * key_dim, seed + 1)),
        values(noisy_rows(length, kv_heads * value_dim, seed + 2)),
        store(trial::store_of<C>(kv_heads, keys, values, length + 20)) {}

  Matrix queries;
  Matrix keys;
  Matrix values;
  kv::Contiguous<C> store;
};

// Whether `some` equals the entries of `all` from `first` on; an entry is one head of one row.
testing::AssertionResult same_part(const Attended& all, Index first, const Attended& some) {
  const auto at = [](const std::vector<float>& values, Index first_entry, Index entries,
                     Index total) {
    const Index size = std::ssize(values) / total;
    return std::span(values).subspan(static_cast<std::size_t>(first_entry * size),
                                     static_cast<std::size_t>(entries * size));
  };
  const Index total = std::ssize(all.log_sum_exp);
  const Index rows = std::ssize(some.log_sum_exp);
  const testing::AssertionResult same =
      trial::same_bits(at(all.output, first, rows, total), some.output);
  if (!same) return same;
  return trial::same_bits(at(all.log_sum_exp, first, rows, total), some.log_sum_exp);
}

template <class C>
class AttentionLaw : public testing::Test {};
using Codecs = testing::Types<codec::F32, codec::BF16, codec::F16>;
TYPED_TEST_SUITE(AttentionLaw, Codecs);

constexpr Index kLength = trial::kSlowBuild ? 1090 : 2110;
const std::vector<Position> kWindows =
    trial::kSlowBuild ? std::vector<Position>{0, 65}
                      : std::vector<Position>{0, 1, 2, 16, 63, 64, 65, 1024, 1025};

TYPED_TEST(AttentionLaw, ARowAloneHasTheBitsOfTheRowAmongOthers) {
  const Sequence<TypeParam> sequence(5, 1, 17, 21, kLength, 1);
  for (Position window : kWindows) {
    const auto rows_from = [&](Position first, Index rows) {
      return trial::attend(sequence.store, first, rows_of(sequence.queries, first, rows), 5, 0.4,
                           Causal{window});
    };
    const Attended all = rows_from(0, kLength);
    for (Index rows : {1, 2, 7, 12, 13, 40}) {
      for (Position first : {0, 1, 14, 15, 16, 17, 63, 64, 65, 127, 1000, 1023, 1024, 1025, 2047}) {
        if (first + rows > kLength) continue;
        ASSERT_TRUE(same_part(all, first * 5, rows_from(first, rows)))
            << rows << " rows from " << first << ", window " << window;
      }
    }
  }
}

TYPED_TEST(AttentionLaw, NeighboursInACallChangeNoBit) {
  std::vector<Sequence<TypeParam>> sequences;
  const std::vector<Index> lengths = {1, 3, 17, 64, 65, 130, 1025};
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    sequences.emplace_back(6, 2, 12, 20, lengths[n], 10 * n + 1);
  }
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 6; ++repeat) {
    std::shuffle(sequences.begin(), sequences.end(), random);
    std::vector<trial::Question<TypeParam>> questions;
    for (const Sequence<TypeParam>& sequence : sequences) {
      const Index rows = 1 + static_cast<Index>(random() % 30) % sequence.queries.rows;
      const Position first = sequence.queries.rows - rows;
      questions.push_back({&sequence.store, first, rows_of(sequence.queries, first, rows)});
    }
    const std::vector<Attended> together = trial::attend(questions, 6, 0.4, Causal{});
    for (std::size_t n = 0; n < questions.size(); ++n) {
      const std::vector<trial::Question<TypeParam>> one = {questions[n]};
      ASSERT_TRUE(same_part(trial::attend(one, 6, 0.4, Causal{})[0], 0, together[n])) << n;
    }
  }
}

TYPED_TEST(AttentionLaw, WorkersChangeNoBit) {
  for (Index kv_heads : {1, 2, 3}) {
    const Sequence<TypeParam> sequence(6, kv_heads, 12, 20, kLength, 3);
    for (Position window : {0, 65, 1025}) {
      for (Index rows : {1, 2, 30}) {
        const auto on = [&](Executor& executor) {
          return trial::attend(sequence.store, kLength - rows,
                               rows_of(sequence.queries, kLength - rows, rows), 6, 0.4,
                               Causal{window}, attention::Plain{}, executor);
        };
        const Attended alone = on(serial_executor());
        for (Index threads : {2, 3, 5}) {
          ThreadPool pool(threads);
          ASSERT_TRUE(same_part(alone, 0, on(pool))) << rows << " rows, " << threads << " threads";
          trial::ShuffledExecutor shuffled(threads, static_cast<unsigned>(rows));
          ASSERT_TRUE(same_part(alone, 0, on(shuffled))) << rows << " rows, shuffled " << threads;
        }
      }
    }
  }
}

// A lone row of few heads is split into segments: the test above does run that code path.
TYPED_TEST(AttentionLaw, ALoneRowIsSplitIntoSegments) {
  const Sequence<TypeParam> sequence(6, 3, 12, 20, 1500, 4);
  trial::ShuffledExecutor two(2, 1);
  trial::attend(sequence.store, 1499, rows_of(sequence.queries, 1499, 1), 6, 0.4, Causal{},
                attention::Plain{}, two);
  EXPECT_EQ(two.items(), (std::vector<Index>{3 * 2}));
  trial::ShuffledExecutor three(3, 1);  // three workers have a head each
  trial::attend(sequence.store, 1499, rows_of(sequence.queries, 1499, 1), 6, 0.4, Causal{},
                attention::Plain{}, three);
  EXPECT_EQ(three.items(), (std::vector<Index>{3}));
}

TYPED_TEST(AttentionLaw, SoftCapsAndBiasesChangeNoBit) {
  const Index length = 300;
  const Sequence<TypeParam> sequence(4, 2, 12, 20, length, 5);
  std::vector<float> bias = trial::noisy(4 * length, 6, 3.0);
  for (std::size_t n = 0; n < bias.size(); n += 5) bias[n] = -trial::kInfinity;
  const attention::Bias by_head = {.bias = bias.data(), .head_stride = length};
  const auto rows_from = [&](Position first, Index rows, const auto& transform) {
    return trial::attend(sequence.store, first, rows_of(sequence.queries, first, rows), 4, 0.4,
                         Causal{100}, transform);
  };
  const Attended capped = rows_from(1, length - 1, attention::SoftCap{2.0f});
  const Attended biased = rows_from(1, length - 1, by_head);
  for (Position first : {1, 15, 64, 99, 100, 101, 250}) {
    for (Index rows : {1, 9}) {
      ASSERT_TRUE(
          same_part(capped, 4 * (first - 1), rows_from(first, rows, attention::SoftCap{2.0f})))
          << first;
      const Attended some = rows_from(first, rows, by_head);
      ASSERT_EQ(0, std::memcmp(some.output.data(), biased.output.data() + 80 * (first - 1),
                               some.output.size() * sizeof(float)))
          << first;
    }
  }
}

}  // namespace
