// decant/simd/detail/instruction_set.hpp - defines simd/instruction_set.hpp, by what Eigen's
// packets and our own intrinsics look at.
#pragma once

#include <decant/core/config.hpp>
#include <decant/simd/bf16_lanes.hpp>
#include <decant/simd/instruction_set.hpp>
#include <decant/simd/lanes.hpp>

#include <string>

namespace decant::inline DECANT_ABI::simd {

DECANT_INLINE std::string instruction_set() {
#if defined(EIGEN_VECTORIZE_AVX512)
  std::string name = "AVX-512";
#elif defined(EIGEN_VECTORIZE_AVX2)
  std::string name = "AVX2";
#elif defined(EIGEN_VECTORIZE_AVX)
  std::string name = "AVX";
#elif defined(EIGEN_VECTORIZE_SSE4_2)
  std::string name = "SSE4.2";
#elif defined(EIGEN_VECTORIZE_SSE2)
  std::string name = "SSE2";
#elif defined(EIGEN_VECTORIZE_NEON)
  std::string name = "NEON";
#else
  std::string name = "no vectors";
#endif
#if defined(EIGEN_VECTORIZE_FMA) && !defined(EIGEN_VECTORIZE_AVX512)
  name += " FMA";
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  name += " VNNI";
#endif
  if (kHasBf16Dot) name += " BF16";
  return name;
}

}  // namespace decant::inline DECANT_ABI::simd
