# What the library stands on. A parent project's own targets win.
if(NOT TARGET Eigen3::Eigen)
  # Eigen's package file equates only equal major versions, and both 3.4 and 5 will do.
  find_package(Eigen3 REQUIRED QUIET)
  if(Eigen3_VERSION VERSION_LESS 3.4)
    message(FATAL_ERROR "decant needs Eigen 3.4 or newer; ${Eigen3_DIR} is ${Eigen3_VERSION}")
  endif()
endif()
find_package(Threads REQUIRED QUIET)

if(DECANT_IO)
  if(NOT TARGET nlohmann_json::nlohmann_json)
    find_package(nlohmann_json 3.10 REQUIRED QUIET)
  endif()
  find_package(ICU REQUIRED QUIET COMPONENTS i18n uc)
endif()
