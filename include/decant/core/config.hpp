// decant/core/config.hpp - what the compiler must promise, and the few macros of the library.
//
// The law of bits (batch-invariant, bitwise reproducible inference: every sum has one order) holds
// only if the compiler follows IEEE arithmetic. Options such as -ffast-math let it reorder sums and
// discard the infinities of masks, so such a build is refused.
//
// Tested by   tests/negative/fast_math.cpp
#pragma once

#include <decant/core/abi.hpp>

#if !defined(_MSVC_LANG) && __cplusplus < 202002L
#error "decant needs C++20: build with -std=c++20 or newer"
#endif

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "decant: -ffast-math (or a part of it that reorders) voids the law of bits; build without it"
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "decant: weights and caches are read as little-endian machines write them"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define DECANT_ALWAYS_INLINE inline __attribute__((always_inline))
#define DECANT_NEVER_INLINE __attribute__((noinline, cold))
#else
#define DECANT_ALWAYS_INLINE inline
#define DECANT_NEVER_INLINE
#endif

// How a definition that is not a template is marked: `inline` in header-only use, and compiled once
// when the targets decant::compiled (DECANT_COMPILED) and decant::compiled_io (DECANT_COMPILED_IO)
// hold the definitions.
#if defined(DECANT_COMPILED)
#define DECANT_INLINE
#else
#define DECANT_INLINE inline
#endif
#if defined(DECANT_COMPILED_IO)
#define DECANT_IO_INLINE
#else
#define DECANT_IO_INLINE inline
#endif

// Before a loop of constant length whose body must become straight code: sums stay in registers.
#if defined(__clang__)
#define DECANT_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define DECANT_UNROLL _Pragma("GCC unroll 16")
#else
#define DECANT_UNROLL
#endif

#if defined(__SANITIZE_ADDRESS__)
#define DECANT_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DECANT_ADDRESS_SANITIZER
#endif
#endif
