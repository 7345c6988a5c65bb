// decant/core/abi.hpp - the inline namespace of the library: its version and its instruction set.
//
// An inline function compiled for AVX2 and for AVX-512 is two functions. Under one name the linker
// would select either, and a processor without AVX-512 might run the wrong one. Under two names,
// objects for several instruction sets may share a program, and an object that was compiled for
// another set than decant::compiled does not link. The name tells apart the sets that kernels
// distinguish; flags for others (-mbmi2, -mavx512vbmi) must agree. Functions of the standard
// library and of Eigen have one name for all sets: hide the symbols of objects that are mixed.
//
// Tested by   tests/package/two_instruction_sets.cmake
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define DECANT_ABI_VECTORS avx512
#elif defined(__AVX512F__)
#define DECANT_ABI_VECTORS avx512f
#elif defined(__AVX2__)
#define DECANT_ABI_VECTORS avx2
#elif defined(__AVX__)
#define DECANT_ABI_VECTORS avx
#elif defined(__SSE4_2__)
#define DECANT_ABI_VECTORS sse4
#elif defined(__SSE2__)
#define DECANT_ABI_VECTORS sse2
#elif defined(__ARM_NEON)
#define DECANT_ABI_VECTORS neon
#else
#define DECANT_ABI_VECTORS scalar
#endif

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define DECANT_ABI_FMA _fma
#else
#define DECANT_ABI_FMA
#endif

#if defined(__F16C__)
#define DECANT_ABI_F16C _f16c
#else
#define DECANT_ABI_F16C
#endif

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define DECANT_ABI_VNNI _vnni
#else
#define DECANT_ABI_VNNI
#endif

#if defined(__AVX512BF16__)
#define DECANT_ABI_BF16 _bf16
#else
#define DECANT_ABI_BF16
#endif

#define DECANT_ABI_JOIN(vectors, fma, f16c, vnni, bf16) v0_##vectors##fma##f16c##vnni##bf16
#define DECANT_ABI_NAME(vectors, fma, f16c, vnni, bf16) \
  DECANT_ABI_JOIN(vectors, fma, f16c, vnni, bf16)

// For example v0_avx512_fma_f16c_vnni_bf16.
#define DECANT_ABI                                                                      \
  DECANT_ABI_NAME(DECANT_ABI_VECTORS, DECANT_ABI_FMA, DECANT_ABI_F16C, DECANT_ABI_VNNI, \
                  DECANT_ABI_BF16)
