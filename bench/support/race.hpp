// bench/support/race.hpp - a contender and its rivals, run alternately inside one benchmark.
//
// Clock rates, other load and memory speed change within seconds, so a figure is compared only with
// one taken beside it: rivals (a bound of the machine, or another library) run between iterations
// until they have had as much time as the contender, and medians are compared. Single-threaded runs
// are timed by the thread's processor time if the system provides it: other load does not lengthen
// that.
#pragma once

#include <decant/core/types.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#if __has_include(<unistd.h>)
#include <time.h>
#endif

namespace decant::bench {

// Units    amount is the work of one run, in the unit of the contest
struct Rival {
  std::string name;
  double amount = 0;
  std::function<void()> run;
};

// What the contender and its rivals do, and on how many threads each of them does it.
//
// Units    amount is the work of one run of the contender, in bytes or operations; its rate is
//          called `unit`, which stands for 10^9 of them a second
struct Contest {
  std::string unit;
  double amount = 0;
  Index threads = 1;
  std::vector<Rival> rivals;
};

namespace detail {

inline double wall_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Processor time of this thread.
inline double thread_seconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
#else
  return wall_seconds();
#endif
}

// How long each run of one participant took, in seconds.
struct Laps {
  std::vector<double> seconds;
  double total = 0;

  template <class F>
  double run(Index threads, F&& work) {
    const auto now = threads == 1 ? thread_seconds : wall_seconds;
    const double start = now();
    work();
    const double lap = now() - start;
    seconds.push_back(lap);
    total += lap;
    return lap;
  }

  double median() {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

}  // namespace detail

// Times `work` and sets the counters
//
//   <unit>      the contender's rate
//   <rival>     the rate of each rival
//   of_<rival>  the contender's rate as a fraction of the rival's
//
// and returns the median seconds of one run. The benchmark must be registered UseManualTime().
template <class F>
double race(benchmark::State& state, const Contest& contest, F&& work) {
  const std::vector<Rival>& rivals = contest.rivals;
  detail::Laps own;
  std::vector<detail::Laps> others(rivals.size());
  work();  // caches and page tables warm up
  for (const Rival& rival : rivals) rival.run();
  for (auto _ : state) {
    state.SetIterationTime(own.run(contest.threads, work));
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      while (others[i].total < own.total) others[i].run(contest.threads, rivals[i].run);
    }
  }
  const double seconds = own.median();
  const double rate = contest.amount / seconds * 1e-9;
  state.counters[contest.unit] = rate;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    const double other = rivals[i].amount / others[i].median() * 1e-9;
    state.counters[rivals[i].name] = other;
    state.counters["of_" + rivals[i].name] = rate / other;
  }
  return seconds;
}

}  // namespace decant::bench
