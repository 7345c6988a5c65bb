// tests/decoding/statistics_test.cpp - rates from counts and times; nothing divides by zero.
#include <decant/decoding/statistics.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace decant::decoding {
namespace {

TEST(Statistics, DeriveRates) {
  const Statistics run{.prompt_tokens = 100,
                       .cached_tokens = 60,
                       .generated_tokens = 11,
                       .prefill_seconds = 0.5,
                       .time_to_first_token = 0.6,
                       .decode_seconds = 2.0};
  EXPECT_EQ(run.computed_prompt_tokens(), 40);
  EXPECT_DOUBLE_EQ(run.prefill_tokens_per_second(), 80.0);
  EXPECT_DOUBLE_EQ(run.time_per_output_token(), 0.2);
  EXPECT_DOUBLE_EQ(run.decode_tokens_per_second(), 5.0);
}

TEST(Statistics, OfNothingAreZero) {
  for (Index generated : {0, 1}) {
    const Statistics run{.generated_tokens = generated, .decode_seconds = 0.25};
    EXPECT_EQ(run.time_per_output_token(), 0.0);
    EXPECT_EQ(run.decode_tokens_per_second(), 0.0);
    EXPECT_EQ(run.prefill_tokens_per_second(), 0.0);
  }
}

TEST(Stopwatch, CountsSecondsForward) {
  const Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double first = watch.seconds();
  EXPECT_GE(first, 0.005);
  EXPECT_GE(watch.seconds(), first);
}

}  // namespace
}  // namespace decant::decoding
