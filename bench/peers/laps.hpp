// bench/peers/laps.hpp - how long rounds took, by two clocks.
//
// Wall time is what a user waits for. On one thread the processor time of the process is compared,
// because other load does not lengthen it.
#pragma once

#include <time.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace decant::bench {

inline double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Laps {
  std::vector<double> wall, cpu;

  template <class F>
  void run(F&& work) {
    const double wall_start = seconds_of(CLOCK_MONOTONIC);
    const double cpu_start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    work();
    cpu.push_back(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
    wall.push_back(seconds_of(CLOCK_MONOTONIC) - wall_start);
  }

  nlohmann::json json() const { return {{"wall", wall}, {"cpu", cpu}}; }
};

}  // namespace decant::bench
