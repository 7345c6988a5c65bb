// tests/attention/sink_test.cpp - learned sinks: a score for every head that takes weight once a
// row.
#include "attention/run.hpp"
#include "law/bits.hpp"
#include "reference/attention.hpp"

#include <decant/core/thread_pool.hpp>
#include <decant/kernels/softmax.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace decant;
using attention::Causal;
using attention::Plain;
using reference::Matrix;
using trial::noisy_rows;

const float kSinks[] = {0.5f, -3.0f, 6.0f, 90.0f};

// Rows [first, past + 7) of a sequence of which the last seven have queries; four query heads on
// two key heads.
trial::Attended attend(Index past, Index first, Executor& executor, const float* sinks) {
  const Matrix keys = noisy_rows(past + 7, 2 * 16, 1);
  const Matrix values = noisy_rows(past + 7, 2 * 16, 2);
  const auto store = trial::store_of(2, keys, values, past + 7);
  Matrix queries = noisy_rows(7, 4 * 16, 3);
  queries.cells.erase(queries.cells.begin(), queries.cells.begin() + (first - past) * 4 * 16);
  queries.rows -= first - past;
  return trial::attend(store, first, queries, 4, 0.25, Causal{}, Plain{}, executor, sinks);
}

TEST(Sink, MatchesTheReference) {
  for (Index past : {0, 60, 1020, 2100}) {
    const Matrix keys = noisy_rows(past + 7, 2 * 16, 1);
    const Matrix values = noisy_rows(past + 7, 2 * 16, 2);
    reference::Attention how{.heads = 4, .kv_heads = 2, .scale = 0.25, .past = past};
    how.sinks.assign(std::begin(kSinks), std::end(kSinks));
    const auto expected = reference::attend(how, noisy_rows(7, 4 * 16, 3), keys, values);
    const trial::Attended result = attend(past, past, serial_executor(), kSinks);
    for (std::size_t i = 0; i < result.output.size(); ++i) {
      ASSERT_NEAR(result.output[i], expected.output.cells[i], 2e-6) << past << ", " << i;
    }
    for (std::size_t i = 0; i < result.log_sum_exp.size(); ++i) {
      ASSERT_NEAR(result.log_sum_exp[i], expected.log_sum_exp.cells[i], 2e-5) << past << ", " << i;
    }
  }
}

// Cut into segments among threads, beside other rows or alone, it counts once.
TEST(Sink, ChangesNoBitWithTheCut) {
  ThreadPool pool(3);
  const trial::Attended together = attend(2100, 2100, serial_executor(), kSinks);
  for (Executor* executor : {&serial_executor(), static_cast<Executor*>(&pool)}) {
    const trial::Attended alone = attend(2100, 2106, *executor, kSinks);
    const trial::Attended again = attend(2100, 2100, *executor, kSinks);
    EXPECT_TRUE(trial::same_bits(std::span(together.output).last(4 * 16), alone.output));
    EXPECT_TRUE(trial::same_bits(std::span(together.log_sum_exp).last(4), alone.log_sum_exp));
    EXPECT_TRUE(trial::same_bits(together.output, again.output));
    EXPECT_TRUE(trial::same_bits(together.log_sum_exp, again.log_sum_exp));
  }
}

TEST(Sink, OfMinusInfinityIsNone) {
  const std::vector<float> none(4, -std::numeric_limits<float>::infinity());
  const trial::Attended without = attend(1020, 1020, serial_executor(), nullptr);
  const trial::Attended with = attend(1020, 1020, serial_executor(), none.data());
  EXPECT_TRUE(trial::same_bits(without.output, with.output));
  EXPECT_TRUE(trial::same_bits(without.log_sum_exp, with.log_sum_exp));
}

// A window of three keys whose scores are all 0, and a row that sees none.
TEST(Sink, TakesTheWeightThatItShould) {
  Matrix keys(7, 16);
  Matrix values(7, 16);
  std::fill(values.cells.begin(), values.cells.end(), 1.0);
  const auto store = trial::store_of(1, keys, values, 7);
  const float sink = 2.0f;
  const trial::Attended seen =
      trial::attend(store, 5, Matrix(2, 16), 1, 1.0, Causal{3}, Plain{}, serial_executor(), &sink);
  for (float number : seen.output) EXPECT_NEAR(number, 0.2887654, 1e-6);
  for (float number : seen.log_sum_exp) EXPECT_NEAR(number, 2.3407530, 1e-6);
  const trial::Attended none =
      trial::attend(store, -1, Matrix(1, 16), 1, 1.0, Causal{3}, Plain{}, serial_executor(), &sink);
  for (float number : none.output) EXPECT_EQ(number, 0.0f);
  EXPECT_EQ(none.log_sum_exp[0], 2.0f);
}

// Three keys of score 0 and value 1, cut into parts of any size, then the sink.
TEST(Sink, CountsOnceWhereverKeysAreCut) {
  for (int part : {1, 2, 3}) {
    kernels::SoftmaxPart total;
    std::vector<float> out = {0.0f};
    for (int first = 0; first < 3; first += part) {
      const auto keys = static_cast<float>(std::min(part, 3 - first));
      kernels::merge(total, out, {0.0f, keys}, std::vector<float>{keys});
    }
    kernels::add_sink(total, out, 2.0f);
    EXPECT_NEAR(kernels::log_sum_exp(total), 2.3407530, 1e-6);
    kernels::finish(total, out);
    EXPECT_NEAR(out[0], 0.2887654, 1e-6);
  }
}

TEST(Sink, OfNaNMakesTheRowNaN) {
  const std::vector<float> nan(4, std::numeric_limits<float>::quiet_NaN());
  for (Position past : {20, -7}) {  // the rows of the second see no key
    const auto store = trial::store_of(2, noisy_rows(27, 32, 1), noisy_rows(27, 32, 2), 27);
    const trial::Attended lost = trial::attend(store, past, noisy_rows(7, 64, 3), 4, 0.25, Causal{},
                                               Plain{}, serial_executor(), nan.data());
    for (float number : lost.output) EXPECT_TRUE(std::isnan(number));
    for (float number : lost.log_sum_exp) EXPECT_TRUE(std::isnan(number));
  }
}

}  // namespace
