# tools/cli/*.cpp becomes the program `weft`. The target is called weft_cli because the library
# already has the name.

file(GLOB weft_cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cli/*.cpp)
if(NOT weft_cli_sources)
  return()
endif()

find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  message(STATUS "weft: CLI11 not found, the command line tool is not built")
  return()
endif()

weft_add_program(weft_cli ${weft_cli_sources})
set_target_properties(weft_cli PROPERTIES OUTPUT_NAME weft)
if(BUILD_SHARED_LIBS)
  set_target_properties(weft_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
target_include_directories(weft_cli PRIVATE ${PROJECT_SOURCE_DIR}/tools)
target_compile_definitions(weft_cli PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
target_link_libraries(weft_cli PRIVATE CLI11::CLI11)
if(TARGET weft_demo_examples)
  target_link_libraries(weft_cli PRIVATE weft_demo_examples)
endif()

find_package(fmt QUIET)
if(fmt_FOUND)
  target_link_libraries(weft_cli PRIVATE fmt::fmt)
  target_compile_definitions(weft_cli PRIVATE WEFT_HAVE_FMT=1)
endif()
