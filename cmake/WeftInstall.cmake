# cmake --install: headers, library, CMake package, pkg-config file, command line tool, gdb script.

include(CMakePackageConfigHelpers)

install(TARGETS weft weft_oslocks weft_tripwires weft_races EXPORT weftTargets
  OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")

# A static library leaves it to its users to link what it needs.
set(weft_users_need_uring OFF)
set(weft_pc_libs "")
get_target_property(weft_type weft TYPE)
if(weft_has_uring AND weft_type STREQUAL "STATIC_LIBRARY")
  set(weft_users_need_uring ON)
  set(weft_pc_libs " -luring")
endif()

set(weft_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${weft_package_dir})
# Below 1.0 a minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${weft_package_dir})
if(weft_users_need_uring)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindLiburing.cmake DESTINATION ${weft_package_dir})
endif()

# weft.pc finds its prefix from where it lies, so an installed tree can be moved.
set(weft_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH weft_pc_to_prefix
  ${CMAKE_INSTALL_PREFIX}/${weft_pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" weft_pc_to_prefix "${weft_pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${weft_pc_dir})

if(TARGET weft_cli)
  install(TARGETS weft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES
  ${PROJECT_SOURCE_DIR}/tools/gdb/weft.py
  ${PROJECT_SOURCE_DIR}/tools/gdb/weft_program.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/gdb OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
