# cmake -P bench/compile_time.cmake: seconds that a user's source file costs for what it includes.
#
# Each case is compiled with -O2 for this machine, several times; the least is printed. Set COMPILER,
# EIGEN (a folder) or TIMES with -D before -P.
cmake_minimum_required(VERSION 3.25)
foreach(default "COMPILER c++" "EIGEN /usr/include/eigen3" "TIMES 3")
  string(REPLACE " " ";" default "${default}")
  list(GET default 0 name)
  if(NOT ${name})
    list(GET default 1 ${name})
  endif()
endforeach()
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
set(source ${CMAKE_CURRENT_BINARY_DIR}/compile_time_case.cpp)

# costs(what lines...): a source file of these lines.
function(costs what)
  list(JOIN ARGN "\n" text)
  file(WRITE ${source} "${text}\n")
  set(least 1000000)
  foreach(turn RANGE 1 ${TIMES})
    string(TIMESTAMP begin "%s%f")
    execute_process(
      COMMAND ${COMPILER} -std=c++20 -O2 -march=native -w -I ${root}/include -isystem ${EIGEN}
              -c ${source} -o ${source}.o
      COMMAND_ERROR_IS_FATAL ANY)
    string(TIMESTAMP end "%s%f")
    math(EXPR took "(${end} - ${begin}) / 1000")
    if(took LESS least)
      set(least ${took})
    endif()
  endforeach()
  file(REMOVE ${source} ${source}.o)
  math(EXPR whole "${least} / 1000")
  math(EXPR rest "${least} % 1000 / 10")
  if(rest LESS 10)
    set(rest 0${rest})
  endif()
  message("${whole}.${rest} s  ${what}")
endfunction()

costs("Eigen/Core alone" "#include <Eigen/Core>")
costs("core/executor.hpp" "#include <decant/core/executor.hpp>")
costs("kv/contiguous.hpp" "#include <decant/kv/contiguous.hpp>")
costs("attention/attend.hpp" "#include <decant/attention/attend.hpp>")
costs("model/decoder.hpp" "#include <decant/model/decoder.hpp>")
costs("decant.hpp, everything but io" "#include <decant/decant.hpp>")
costs("io.hpp" "#include <decant/io.hpp>")
costs("a step over one cache type" "#include <decant/model/decoder.hpp>"
  "#include <decant/kv/contiguous.hpp>" "using Store = decant::kv::Contiguous<decant::codec::BF16>"
  "\;template void decant::model::Decoder::step(decant::model::Batch<Store>&, decant::model::Workspace&) const\;")
