# cmake -DSOURCE=... -DFOLDER=... -DGENERATOR=... -DCOMPILER=... -DSTAGE=... -DEIGEN=... -P instruction_set.cmake
#
# A consumer's build without an instruction set is told so, once; one with AVX2 is not.
function(configure told)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER} -G ${GENERATOR}
      -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${STAGE} -DEigen3_DIR=${EIGEN} ${ARGN}
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "${said}")
  endif()
  string(FIND "${said}" "name no instruction set" at)
  if((told AND at EQUAL -1) OR (NOT told AND NOT at EQUAL -1))
    message(FATAL_ERROR "told ${told} of the instruction set was expected:\n${said}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
configure(TRUE -DCMAKE_CXX_FLAGS=)
configure(FALSE)
file(REMOVE_RECURSE ${FOLDER})
configure(FALSE -DCMAKE_CXX_FLAGS=-march=x86-64-v3)
