# Says once, when a user's build is configured first, that it leaves three quarters of a processor
# unused: CMake's default flags name no instruction set, and no compiler warns.
include(CheckCXXSourceCompiles)
if(NOT DEFINED DECANT_BEYOND_BASELINE)
  check_cxx_source_compiles("#if defined(__x86_64__) && !defined(__AVX2__)\n#error\n#endif\nint main() {}"
    DECANT_BEYOND_BASELINE)
  if(NOT DECANT_BEYOND_BASELINE)
    message(NOTICE "decant: CMAKE_CXX_FLAGS name no instruction set, so kernels are compiled for SSE2, which takes "
      "about three times as long as AVX2. Add -march=native, or -march=x86-64-v3 for any machine with AVX2.")
  endif()
endif()
