# The target xxHash::xxhash: from its own package file where there is one (Debian ships none), else
# from the header and the library.
find_package(xxHash CONFIG QUIET)
if(NOT TARGET xxHash::xxhash)
  find_path(xxHash_INCLUDE_DIR xxhash.h)
  find_library(xxHash_LIBRARY xxhash)
  mark_as_advanced(xxHash_INCLUDE_DIR xxHash_LIBRARY)
  if(xxHash_INCLUDE_DIR AND xxHash_LIBRARY)
    add_library(xxHash::xxhash UNKNOWN IMPORTED)
    set_target_properties(xxHash::xxhash PROPERTIES
      IMPORTED_LOCATION ${xxHash_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${xxHash_INCLUDE_DIR})
  endif()
endif()
if(TARGET xxHash::xxhash)
  set(xxHash_FOUND TRUE)
elseif(xxHash_FIND_REQUIRED)
  message(FATAL_ERROR "xxHash is missing: neither its package file, nor xxhash.h and its library")
endif()
