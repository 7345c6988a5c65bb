# cmake -P bench/compile_time.cmake: seconds that a user's source file costs, header-only and against
# decant::compiled and decant::compiled_io.
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

set(compiled -DDECANT_COMPILED -DDECANT_COMPILED_IO)

# least(seconds source flags...): the least time that the source takes.
function(least result source)
  set(least 1000000)
  foreach(turn RANGE 1 ${TIMES})
    string(TIMESTAMP begin "%s%f")
    execute_process(
      COMMAND ${COMPILER} -std=c++20 -O2 -march=native -w -I ${root}/include -isystem ${EIGEN} ${ARGN}
              -c ${source} -o ${source}.o
      COMMAND_ERROR_IS_FATAL ANY)
    string(TIMESTAMP end "%s%f")
    math(EXPR took "(${end} - ${begin}) / 1000")
    if(took LESS least)
      set(least ${took})
    endif()
  endforeach()
  file(REMOVE ${source}.o)
  math(EXPR whole "${least} / 1000")
  math(EXPR rest "${least} % 1000 / 10")
  if(rest LESS 10)
    set(rest 0${rest})
  endif()
  set(${result} "${whole}.${rest}" PARENT_SCOPE)
endfunction()

# costs(what lines...): a source file of these lines, which has nothing of decant.
function(costs what)
  list(JOIN ARGN "\n" text)
  file(WRITE ${source} "${text}\n")
  least(seconds ${source})
  message("${seconds} s                       ${what}")
endfunction()
# A source file of this text, header-only and compiled.
function(costs_both what text)
  file(WRITE ${source} "${text}\n")
  least(alone ${source})
  least(light ${source} ${compiled})
  message("${alone} s, compiled ${light} s  ${what}")
endfunction()

file(READ ${root}/README.md readme)  # its first complete program
string(REGEX MATCH "```cpp\n[^`]*int main[^`]*```" program "${readme}")
string(REGEX REPLACE "```(cpp)?" "" program "${program}")

costs("the standard headers alone" "#include <algorithm>" "#include <array>" "#include <atomic>"
  "#include <charconv>" "#include <chrono>" "#include <cmath>" "#include <functional>"
  "#include <map>" "#include <mutex>" "#include <optional>" "#include <ranges>" "#include <span>"
  "#include <string>" "#include <thread>" "#include <unordered_map>" "#include <variant>"
  "#include <vector>")
costs("Eigen/Core alone" "#include <Eigen/Core>")
costs_both("decant.hpp" "#include <decant/decant.hpp>")
costs_both("io.hpp" "#include <decant/io.hpp>")
costs_both("the README's program" "${program}")
file(REMOVE ${source})
