# cmake --install: headers, targets, and a package file whose components io and compiled are optional.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(DECANT_CMAKE_DIR ${CMAKE_INSTALL_DATADIR}/cmake/decant)  # header-only: no architecture in it

install(TARGETS decant EXPORT decant-targets FILE_SET HEADERS)
install(EXPORT decant-targets NAMESPACE decant:: DESTINATION ${DECANT_CMAKE_DIR})
if(DECANT_IO)
  install(TARGETS decant_io EXPORT decant-io-targets FILE_SET HEADERS)
  install(EXPORT decant-io-targets NAMESPACE decant:: DESTINATION ${DECANT_CMAKE_DIR})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/compiled_io.cmake DESTINATION ${DECANT_CMAKE_DIR})
endif()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/decant-config.cmake.in ${PROJECT_BINARY_DIR}/decant-config.cmake
  INSTALL_DESTINATION ${DECANT_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/decant-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(
  FILES ${PROJECT_BINARY_DIR}/decant-config.cmake ${PROJECT_BINARY_DIR}/decant-config-version.cmake
        ${PROJECT_SOURCE_DIR}/cmake/FindxxHash.cmake ${PROJECT_SOURCE_DIR}/cmake/compiled.cmake
        ${PROJECT_SOURCE_DIR}/cmake/instruction_set.cmake
  DESTINATION ${DECANT_CMAKE_DIR})
install(DIRECTORY ${DECANT_COMPILED_SOURCES}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/decant/compiled)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/decant)

if(CMAKE_VERSION VERSION_GREATER_EQUAL 4.3)
  install(PACKAGE_INFO decant EXPORT decant-targets)
endif()
