# Finds liburing, by which the library talks to io_uring. Used by the build, and by the installed
# package where the library is static.
#
#   Liburing_FOUND, Liburing::Liburing
#
# Version 2.3 is needed, and recognised by a function that it brought.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND AND NOT CMAKE_CROSSCOMPILING)
  pkg_check_modules(Liburing_PC QUIET liburing)
endif()
find_path(Liburing_INCLUDE_DIR liburing.h HINTS ${Liburing_PC_INCLUDE_DIRS})
find_library(Liburing_LIBRARY uring HINTS ${Liburing_PC_LIBRARY_DIRS})
mark_as_advanced(Liburing_INCLUDE_DIR Liburing_LIBRARY)

set(Liburing_ENTER2 "")
if(Liburing_INCLUDE_DIR)
  file(STRINGS ${Liburing_INCLUDE_DIR}/liburing.h Liburing_ENTER2 REGEX "int io_uring_enter2\\(")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Liburing
  REQUIRED_VARS Liburing_LIBRARY Liburing_INCLUDE_DIR Liburing_ENTER2)

if(Liburing_FOUND AND NOT TARGET Liburing::Liburing)
  add_library(Liburing::Liburing UNKNOWN IMPORTED)
  set_target_properties(Liburing::Liburing PROPERTIES
    IMPORTED_LOCATION "${Liburing_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Liburing_INCLUDE_DIR}")
endif()
