// examples/support/profile.hpp - a profile as a table, beside the machine's bounds.
//
// Reading weights and keys bounds a step of few rows, multiplying and adding one of many. Both are
// measured in the same run, since they differ between machines and over time.
//
// Tested by   tests/examples/CMakeLists.txt
#pragma once

#include <decant/core/executor.hpp>
#include <decant/model/profile.hpp>

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <string_view>

namespace examples {

// Units    bytes and flops per second, of all threads together; share of the time that the threads
//          ran in while they were measured, below 1 if other programs took processors from them
struct Bounds {
  double bytes = 0;
  double flops = 0;
  double share = 1;
};

inline constexpr int kMeasuredTurns = 40;

// Memory bandwidth and arithmetic of this machine on the executor's threads: the fastest of
// kMeasuredTurns short turns, so that other load slows most of them down but rarely all.
Bounds measure_bounds(decant::Executor& executor);

// Each kind of operation: its time, its rates, and the share of the nearer bound that it reached.
inline void print(std::ostream& out, const decant::model::Profile& profile, double waiting,
                  const Bounds& bounds) {
  const auto line = [&](std::string_view what, double seconds) -> std::ostream& {
    return out << std::left << std::setw(12) << what << std::right << std::fixed
               << std::setprecision(1) << std::setw(10) << seconds * 1e3 << std::setw(7)
               << std::setprecision(0) << 100 * seconds / profile.seconds() << " %";
  };
  out << "operation           ms  share      GB/s   GFLOP/s  of bound\n";
  for (const auto operation : decant::model::kOperations) {
    const auto& entry = profile[operation];
    if (entry.calls == 0) continue;
    const double bytes = entry.work.bytes / entry.seconds;
    const double flops = entry.work.flops / entry.seconds;
    line(name(operation), entry.seconds)
        << std::setprecision(1) << std::setw(10) << bytes / 1e9 << std::setw(10) << flops / 1e9
        << std::setprecision(0) << std::setw(8)
        << 100 * std::max(bytes / bounds.bytes, flops / bounds.flops) << " %\n";
  }
  line("all", profile.seconds()) << '\n';
  line("of it waiting", waiting) << "   for other threads\n";
  out << std::setprecision(1) << "bounds: a plain read " << bounds.bytes / 1e9
      << " GB/s, f32 multiply-adds " << bounds.flops / 1e9 << " GFLOP/s\n"
      << std::defaultfloat;
}

}  // namespace examples
