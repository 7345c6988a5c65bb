# cmake -P include_flow.cmake: includes point only left, and headers follow the house rules.
cmake_minimum_required(VERSION 3.25)
get_filename_component(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
include(${PROJECT_SOURCE_DIR}/cmake/headers.cmake)
set(core core)
set(simd core simd)
set(codec core simd codec)
set(kernels core simd codec kernels)
set(kv core codec kv)
set(attention core simd codec kernels kv attention)
set(model ${attention} model)
set(files core codec files)
foreach(room checkpoints text snapshots)
  set(${room} ${model} files ${room})
endforeach()
set(decoding ${model} decoding)

# The internals that another folder's may include.
set(shared
  "kernels codec/detail/widen.hpp"
  "attention kernels/detail/tile.hpp"
  "attention kernels/detail/integer_tile.hpp"
  "model attention/detail/attend.hpp"
  "snapshots files/detail/hash.hpp")

set(include "${PROJECT_SOURCE_DIR}/include")
set(listed ${DECANT_HEADERS} ${DECANT_IO_HEADERS})
file(GLOB_RECURSE headers RELATIVE ${include} ${include}/*.hpp)
foreach(header IN LISTS headers)
  string(REGEX MATCH "^decant/([a-z]+)/" folder ${header})
  set(folder ${CMAKE_MATCH_1})  # empty for an umbrella, which is for users
  if(NOT include/${header} IN_LIST listed)
    message(SEND_ERROR "${header}: not in cmake/headers.cmake")
  endif()
  file(STRINGS ${include}/${header} lines REGEX "^ *# *include")
  foreach(line IN LISTS lines)
    if(line MATCHES "[.]/" OR NOT line MATCHES "^#include <([a-z0-9_]+/)?([A-Za-z0-9_/.]+)>")
      message(SEND_ERROR "${header}: not an angle include from the root: ${line}")
    elseif(CMAKE_MATCH_1 STREQUAL "decant/" AND folder)
      string(REGEX REPLACE "/.*" "" seen "${CMAKE_MATCH_2}")
      if(NOT seen IN_LIST ${folder})
        message(SEND_ERROR "${header}: ${folder} does not see ${seen}: ${line}")
      endif()
      set(internal "${CMAKE_MATCH_2}")
      if(internal MATCHES "/detail/" AND NOT seen STREQUAL folder AND NOT "${folder} ${internal}" IN_LIST shared)
        message(SEND_ERROR "${header}: internals of ${seen}: ${line}")
      endif()
    elseif("${CMAKE_MATCH_1}${CMAKE_MATCH_2}" MATCHES "^(nlohmann|unicode|xxhash)" AND NOT folder MATCHES "^(files|text)$")
      message(SEND_ERROR "${header}: only files and text may use that library: ${line}")
    endif()
  endforeach()
  file(STRINGS ${include}/${header} lines REGEX
    "^[^/]*(using namespace|namespace *{)|^ *# *define")
  if(lines AND NOT header MATCHES "^decant/(core/config|instantiate).hpp$")
    message(SEND_ERROR "${header}: using namespace, unnamed namespace or macro: ${lines}")
  endif()
endforeach()
