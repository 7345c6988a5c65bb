// decant/core/processors.hpp - how many processors this process may use.
//
// std::thread::hardware_concurrency() counts those of the machine. Threads beyond those that a
// process may use (taskset, a container's limit) take turns, and each waits for the others at the
// end of every parallel region.
//
// Source      sched_getaffinity(2); the Linux kernel's documentation of cgroup v2, cpu.max
// Tested by   tests/core/processors_test.cpp
#pragma once

#include <decant/core/types.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace decant::inline DECANT_ABI {

namespace detail {

// The processors of a line "quota period" of cpu.max, rounded up; none for "max period" and for
// what cannot be read.
inline std::optional<Index> processors_of_quota(std::string_view line) {
  Index quota = 0, period = 0;
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, quota);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ' ') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc{} || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period + (quota % period > 0 ? 1 : 0);
}

}  // namespace detail

// At least 1.
//
// Cost     reads a file of the system
inline Index available_processors() {
  Index count = std::max<Index>(1, std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    count = std::max<Index>(1, CPU_COUNT(&allowed));
  }
  if (std::FILE* const file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    std::array<char, 64> text;
    const std::size_t size = std::fread(text.data(), 1, text.size(), file);
    std::fclose(file);
    count = std::min(count, detail::processors_of_quota({text.data(), size}).value_or(count));
  }
#endif
  return count;
}

}  // namespace decant::inline DECANT_ABI
