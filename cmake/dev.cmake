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
  DECANT_EXAMPLE_MODELS="${PROJECT_SOURCE_DIR}/examples/models"
  DECANT_FUZZ_CORPUS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus"
  DECANT_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data")

# The big templates, compiled once for everything that links decant_dev.
set(instances ${PROJECT_SOURCE_DIR}/tests/instances)
add_library(decant_instances STATIC
  ${instances}/f32.cpp ${instances}/bf16.cpp ${instances}/f16.cpp ${instances}/blocks.cpp)
target_link_libraries(decant_instances PRIVATE decant_dev)
target_compile_options(decant_instances PRIVATE $<$<NOT:$<CONFIG:Release>>:-O1>)  # or tests crawl
add_library(decant_shared INTERFACE)
target_link_libraries(decant_shared INTERFACE decant_dev decant_instances)
target_compile_options(decant_shared INTERFACE
  "SHELL:-include ${instances}/instances.hpp")
