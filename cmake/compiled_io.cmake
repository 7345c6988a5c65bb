# decant::compiled_io: the definitions of decant::io in a static library, beside decant::compiled. It is
# not installed as a binary: whoever asks for it builds it with compiler and flags of their own, those
# in force where they ask. A program that links it includes declarations alone (DECANT_COMPILED_IO, core/config.hpp): no
# JSON, no ICU, no xxHash.
#
# Expects  DECANT_COMPILED_SOURCES, the folder of include/decant/compiled
set(decant_compiled_io_sources files checkpoints text snapshots)
list(TRANSFORM decant_compiled_io_sources REPLACE "(.+)" "${DECANT_COMPILED_SOURCES}/\\1.cpp")
add_library(decant_compiled_io STATIC EXCLUDE_FROM_ALL ${decant_compiled_io_sources})
add_library(decant::compiled_io ALIAS decant_compiled_io)
target_link_libraries(decant_compiled_io PUBLIC decant::compiled PRIVATE decant::io)
target_compile_definitions(decant_compiled_io PUBLIC DECANT_COMPILED_IO)
