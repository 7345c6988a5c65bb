# How our own tests, benchmarks and examples are built; nothing of this reaches a consumer.
include(FetchContent)
enable_testing()
if(NOT DECANT_IO)
  message(FATAL_ERROR "decant's tests, benchmarks and examples need DECANT_IO=ON")
endif()

add_library(decant_dev INTERFACE)
target_link_libraries(decant_dev INTERFACE decant_io)
target_compile_options(decant_dev INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-sign-conversion>  # -Wconversion as GCC means it
  $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized;-Wno-restrict>  # GCC 12 suspects its own headers
  $<$<BOOL:${DECANT_NATIVE}>:-march=native>)
target_compile_definitions(decant_dev INTERFACE
  $<$<BOOL:${DECANT_DEBUG_STORES}>:DECANT_DEBUG_STORES>
  DECANT_EXAMPLE_MODELS="${PROJECT_SOURCE_DIR}/examples/models"
  DECANT_FUZZ_CORPUS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus"
  DECANT_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data")

# Kernels are optimised even where tests are not, or those crawl.
target_link_libraries(decant_compiled PRIVATE decant_dev)
target_compile_options(decant_compiled PRIVATE -Wsign-conversion $<$<NOT:$<CONFIG:Release>>:-O1>)

# Readers of files are optimised even where tests are not, or those crawl.
target_link_libraries(decant_compiled_io PRIVATE decant_dev)
target_compile_options(decant_compiled_io PRIVATE -Wsign-conversion $<$<NOT:$<CONFIG:Release>>:-O1>)

# decant_precompiled(prefix [OPTIONS flags...] [LIBRARIES ...] HEADERS ...) makes a library of what
# some programs have in common, compiled once; decant_program(target prefix) makes a target one of
# them. Flags are not inherited, so that each target has them in one order.
function(decant_precompiled prefix)
  cmake_parse_arguments(PARSE_ARGV 1 with "" "" "OPTIONS;LIBRARIES;HEADERS")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty.cpp CONTENT "")
  add_library(${prefix} OBJECT ${PROJECT_BINARY_DIR}/empty.cpp)
  set_target_properties(${prefix} PROPERTIES
    DECANT_OPTIONS "${with_OPTIONS}" DECANT_LIBRARIES "${with_LIBRARIES}")
  target_compile_options(${prefix} PRIVATE ${with_OPTIONS})
  target_link_libraries(${prefix} PRIVATE decant_dev decant_compiled_io decant_compiled ${with_LIBRARIES})
  target_precompile_headers(${prefix} PRIVATE <decant/instantiate.hpp> ${with_HEADERS})
endfunction()
function(decant_program target prefix)
  get_target_property(options ${prefix} DECANT_OPTIONS)
  get_target_property(libraries ${prefix} DECANT_LIBRARIES)
  target_compile_options(${target} PRIVATE ${options})
  target_link_libraries(${target} PRIVATE decant_dev decant_compiled_io decant_compiled ${libraries})
  target_precompile_headers(${target} REUSE_FROM ${prefix})
endfunction()
