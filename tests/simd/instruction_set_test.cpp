// tests/simd/instruction_set_test.cpp - the kernels' instructions are named as the compiler has
// them.
#include <decant/simd/bf16_lanes.hpp>
#include <decant/simd/instruction_set.hpp>

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace decant;

TEST(InstructionSet, IsThatOfTheCompiler) {
  const std::string name = simd::instruction_set();
#if defined(__AVX512F__)
  EXPECT_TRUE(name.starts_with("AVX-512")) << name;
#elif defined(__AVX2__)
  EXPECT_TRUE(name.starts_with("AVX2")) << name;
#elif defined(__x86_64__)
  EXPECT_NE(name, "no vectors");
#endif
  EXPECT_EQ(name.find("BF16") != name.npos, simd::kHasBf16Dot) << name;
}

}  // namespace
