// decant/simd/instruction_set.hpp - which instructions the kernels were compiled for.
//
// Tested by   tests/simd/instruction_set_test.cpp
#pragma once

#include <string>

namespace decant::inline DECANT_ABI::simd {

// The widest vectors, then what is used beside them: "AVX-512 VNNI BF16", "AVX2 FMA", "SSE2",
// "NEON", "no vectors".
std::string instruction_set();

}  // namespace decant::inline DECANT_ABI::simd

#if !defined(DECANT_COMPILED)
#include <decant/simd/detail/instruction_set.hpp>
#endif
