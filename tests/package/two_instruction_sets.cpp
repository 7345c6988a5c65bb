// Compiled once for each instruction set; NAME is the function that the object defines.
#include <decant/kernels/softmax.hpp>
#include <decant/simd/instruction_set.hpp>

#include <string>
#include <vector>

std::string NAME(std::vector<float>& values) {
  decant::kernels::finish({.maximum = 0, .sum = 1}, values);
  return decant::simd::instruction_set();
}
