// decant/core/resources.hpp - the threads and the memory that loading and packing may use.
//
// Tested by   tests/kernels/matrix_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/memory.hpp>

#include <memory_resource>

namespace decant::inline DECANT_ABI {

// Borrowed; neither changes a bit. The memory must outlive what is made in it.
struct Resources {
  Executor& executor = serial_executor();
  std::pmr::memory_resource& memory = default_memory();
};

}  // namespace decant::inline DECANT_ABI
