// tests/core/processors_test.cpp - the affinity of a process and the quota of its container count.
#include <decant/core/processors.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace decant {
namespace {

TEST(Processors, OfAQuotaAreRoundedUp) {
  EXPECT_EQ(detail::processors_of_quota("200000 100000"), 2);
  EXPECT_EQ(detail::processors_of_quota("150000 100000"), 2);
  EXPECT_EQ(detail::processors_of_quota("1 100000"), 1);
  for (const char* none : {"max 100000", "", "200000", "200000 ", "0 100000", "-1 100000", "5 0",
                           "5 x", "99999999999999999999 1"}) {
    EXPECT_EQ(detail::processors_of_quota(none), std::nullopt) << none;
  }
}

#if defined(__linux__)
TEST(Processors, AreThoseThatTheProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(available_processors(), CPU_COUNT(&before));
  EXPECT_GE(available_processors(), 1);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}
#endif

}  // namespace
}  // namespace decant
