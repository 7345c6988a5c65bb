# decant::compiled: the common instances of the library's templates and all that is no template, in a
# static library. It is not installed as a binary: whoever asks for it, by find_package, as a
# subdirectory or fetched, builds it with compiler and flags of their own, those in force where they
# ask. A program that links it includes light headers (DECANT_COMPILED, core/config.hpp).
#
# Expects  DECANT_COMPILED_SOURCES, the folder of include/decant/compiled
set(decant_compiled_sources bf16 decoding f16 f32 fp8 generate int4 int8 kernels mixed paged_runs)
list(TRANSFORM decant_compiled_sources REPLACE "(.+)" "${DECANT_COMPILED_SOURCES}/\\1.cpp")
add_library(decant_compiled STATIC EXCLUDE_FROM_ALL ${decant_compiled_sources})
add_library(decant::compiled ALIAS decant_compiled)
target_link_libraries(decant_compiled PUBLIC decant::decant)
target_compile_definitions(decant_compiled PUBLIC DECANT_COMPILED)
