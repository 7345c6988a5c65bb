# cmake -DCOMPILER=... "-DOPTIONS=..." -DNM=... -DSOURCE=... -DFOLDER=... -P two_instruction_sets.cmake
#
# Objects for two instruction sets, each set with the next, define no symbol of the library in common,
# so the linker cannot call the code of one from the other.
cmake_minimum_required(VERSION 3.25)
function(symbols set result)
  separate_arguments(options UNIX_COMMAND "${OPTIONS}")
  execute_process(COMMAND ${COMPILER} ${options} -march=${set} -O0 -DNAME=of_this_set -c ${SOURCE}
      -o ${FOLDER}/${set}.o COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${NM} --demangle --defined-only ${FOLDER}/${set}.o
    OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "decant::[^\n]*" names "${names}")
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${FOLDER})
symbols(nehalem one)
foreach(set haswell skylake-avx512 icelake-server)
  symbols(${set} other)
  foreach(name IN LISTS other)
    if(name IN_LIST one)
      message(SEND_ERROR "compiled for two instruction sets under one name: ${name}")
    endif()
  endforeach()
  list(LENGTH other count)
  if(count LESS 10)
    message(SEND_ERROR "${set}: only ${count} symbols of decant are compared")
  endif()
  set(one ${other})
endforeach()
