# cmake -DCOMPILER=... -DOPTIONS=... -DSOURCE=... -DFLAG=... -DREASON=... -P refused.cmake
#
# The source compiles without FLAG, and with it is refused for REASON and nothing else.
separate_arguments(OPTIONS)
separate_arguments(FLAG)
execute_process(COMMAND ${COMPILER} ${OPTIONS} -fsyntax-only ${SOURCE}
  RESULT_VARIABLE failed ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "the sane reference does not compile:\n${said}")
endif()
execute_process(COMMAND ${COMPILER} ${OPTIONS} ${FLAG} -fsyntax-only ${SOURCE}
  RESULT_VARIABLE failed ERROR_VARIABLE said)
if(NOT failed)
  message(FATAL_ERROR "compiles with ${FLAG}")
elseif(NOT said MATCHES "${REASON}")
  message(FATAL_ERROR "refused, but not for '${REASON}':\n${said}")
endif()
