# The tests, and how a file becomes one:
#
#   test/<room>/*_test.cpp     one GoogleTest program test_<room>; label <room>
#   test/support/*.cpp         linked into every test program; included as "support/x.hpp"
#   test/compile_fail/*.cpp    must not compile, for the stated reason
#   test/tools/*_test.sh       executable script, called with the build and the source directory
#   test/tools/*_prog.cpp      program testprog_* for those scripts
#   test/model/run             model checking
#   test/consumer/run          a project that uses the installed library
#   examples/*.cpp             see WeftExamples.cmake
#   tools/tidy, clang-format   style
#   bench/instructions.json    instructions of hot paths; label bench
#
# A test script that exits with 77 reports itself as skipped.

set(weft_test_timeout_s 300)
# Longer sweeps may take longer; WEFT_TEST_SCALE is read when ctest runs.
set(weft_test_timeout_large_s 3600)
# The rooms whose tests a change is checked against under this sanitizer by `make test`: those it
# has most to say about. `make asan` and `make tsan` run all.
set(weft_sanitize_rooms stack task time sim)
if(WEFT_SANITIZE MATCHES "thread")
  set(weft_sanitize_rooms wait sched sync flow)
endif()

# Checks of the source text and of the installation say the same in every build of it.
set(weft_plain_native_build OFF)
if(NOT WEFT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(weft_plain_native_build ON)
endif()

# --- GoogleTest and rapidcheck ------------------------------------------------------------------

find_package(GTest QUIET)
if(NOT GTest_FOUND)
  # Debian ships the sources, which is how a cross build gets it.
  set(weft_gtest_source /usr/src/googletest/googletest)
  if(NOT EXISTS ${weft_gtest_source})
    message(FATAL_ERROR "weft: GoogleTest not found; run scripts/setup, "
      "or configure with -DWEFT_BUILD_TESTS=OFF")
  endif()
  set(INSTALL_GTEST OFF)
  add_subdirectory(${weft_gtest_source} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
endif()
include(GoogleTest)

find_package(rapidcheck QUIET)
if(NOT rapidcheck_FOUND)
  message(STATUS "weft: rapidcheck not found, test files that include it are left out")
endif()

# --- one program per room -----------------------------------------------------------------------

file(GLOB weft_support_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/support/*.cpp)
add_library(weft_test_support INTERFACE)
target_link_libraries(weft_test_support INTERFACE weft::weft GTest::gtest GTest::gtest_main)
target_include_directories(weft_test_support INTERFACE
  ${PROJECT_SOURCE_DIR}/test ${PROJECT_SOURCE_DIR}/src)
if(rapidcheck_FOUND)
  target_link_libraries(weft_test_support INTERFACE rapidcheck)
  target_compile_definitions(weft_test_support INTERFACE WEFT_HAVE_RAPIDCHECK=1)
endif()
if(weft_support_sources)
  add_library(weft_test_support_objects OBJECT ${weft_support_sources})
  weft_target_defaults(weft_test_support_objects)
  target_link_libraries(weft_test_support_objects PRIVATE weft_test_support)
endif()

# Reading all of weft takes longer than compiling most tests: it is read once.
file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "")
add_library(weft_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
weft_target_defaults(weft_test_headers)
target_compile_options(weft_test_headers PRIVATE -g1)
target_link_libraries(weft_test_headers PRIVATE weft_test_support)
target_precompile_headers(weft_test_headers PRIVATE
  ${PROJECT_SOURCE_DIR}/test/support/everywhere.hpp)

# Everything that `make test` needs from a sanitizer build.
add_custom_target(weft_sanitize_tests)

# Tests are listed when ctest starts, not while building: a test program that crashes at start-up
# then stays on disk to be debugged, and a wrapper around ctest applies to the listing too.
function(weft_add_room room sources)
  set(target test_${room})
  weft_add_program(${target} ${sources})
  # Line numbers are enough here, and take a fifth less time and two thirds less space.
  target_compile_options(${target} PRIVATE -g1)
  target_link_libraries(${target} PRIVATE weft_test_support)
  target_precompile_headers(${target} REUSE_FROM weft_test_headers)
  if(TARGET weft_test_support_objects)
    target_link_libraries(${target} PRIVATE weft_test_support_objects)
  endif()
  # A sanitizer's runtime stands in the same place.
  if(room STREQUAL "sim" AND NOT WEFT_SANITIZE)
    target_link_libraries(${target} PRIVATE weft::tripwires)
  endif()
  # Races between tasks, whatever the schedule. The other rooms have tests about the order in which
  # tasks come to a plain variable.
  if(WEFT_SANITIZE STREQUAL "thread" AND room MATCHES "^(sync|flow)$")
    target_link_libraries(${target} PRIVATE weft::races)
  endif()

  set(labels ${room})
  if(room IN_LIST weft_sanitize_rooms)
    list(APPEND labels sanitize)
    add_dependencies(weft_sanitize_tests ${target})
  endif()
  gtest_discover_tests(${target}
    TEST_PREFIX ${room}. TEST_LIST weft_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  # gtest_discover_tests cannot carry a list as a property, nor a time-out chosen at run time.
  set(properties_file ${PROJECT_BINARY_DIR}/${target}_properties.cmake)
  file(CONFIGURE OUTPUT ${properties_file} @ONLY CONTENT [[
if(weft_tests)
  set(timeout_s @weft_test_timeout_s@)
  if("$ENV{WEFT_TEST_SCALE}" STREQUAL "large")
    set(timeout_s @weft_test_timeout_large_s@)
  endif()
  set_tests_properties(${weft_tests} PROPERTIES LABELS "@labels@" TIMEOUT ${timeout_s})
  unset(weft_tests)
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()

file(GLOB weft_room_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/*/*_test.cpp)
set(weft_test_rooms "")
foreach(source IN LISTS weft_room_tests)
  get_filename_component(room ${source} DIRECTORY)
  get_filename_component(room ${room} NAME)
  if(room MATCHES "^(support|consumer|model|compile_fail)$")
    continue()
  endif()
  if(NOT rapidcheck_FOUND)
    file(STRINGS ${source} uses REGEX "rapidcheck|WEFT_HAVE_RAPIDCHECK")
    if(uses AND NOT uses MATCHES "WEFT_HAVE_RAPIDCHECK")
      message(STATUS "weft: left out: ${source}")
      continue()
    endif()
  endif()
  list(APPEND weft_test_rooms ${room})
  list(APPEND weft_room_sources_${room} ${source})
endforeach()
list(REMOVE_DUPLICATES weft_test_rooms)
foreach(room IN LISTS weft_test_rooms)
  weft_add_room(${room} "${weft_room_sources_${room}}")
endforeach()

# --- each public header compiles alone ----------------------------------------------------------

# Those with a source file of the same name are the first thing that includes, which tells as much.
set(weft_header_sources "")
foreach(header IN LISTS weft_public_headers)
  string(REGEX REPLACE "^weft/(.*)\\.hpp$" "${PROJECT_SOURCE_DIR}/src/\\1.cpp" own_source ${header})
  if(EXISTS ${own_source})
    file(STRINGS ${own_source} includes REGEX "^#include" LIMIT_COUNT 1)
    if(includes STREQUAL "#include <${header}>")
      continue()
    endif()
  endif()
  string(REGEX REPLACE "[/.]" "_" name ${header})
  set(source ${PROJECT_BINARY_DIR}/header_check/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include <@header@>\n" @ONLY)
  list(APPEND weft_header_sources ${source})
endforeach()
if(weft_header_sources)
  add_library(weft_header_check OBJECT ${weft_header_sources})
  weft_target_defaults(weft_header_check)
  target_compile_options(weft_header_check PRIVATE -g0 -O0)
  target_link_libraries(weft_header_check PRIVATE weft::weft)
endif()

# --- scripts, models, source checks -------------------------------------------------------------

if(NOT weft_plain_native_build)
  return()
endif()

# weft_add_script_test(name label timeout_s command...)
function(weft_add_script_test name label timeout_s)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS ${label} TIMEOUT ${timeout_s} SKIP_RETURN_CODE 77)
endfunction()

file(GLOB weft_tool_programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/tools/*_prog.cpp)
foreach(source IN LISTS weft_tool_programs)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "_prog$" "" name ${name})
  weft_add_program(testprog_${name} ${source})
endforeach()
target_link_libraries(testprog_oslocks PRIVATE weft::oslocks)

file(GLOB weft_tool_scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/tools/*_test.sh)
foreach(script IN LISTS weft_tool_scripts)
  get_filename_component(name ${script} NAME_WE)
  string(REGEX REPLACE "_test$" "" name ${name})
  weft_add_script_test(tools.${name} tools 300
    ${script} ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
endforeach()

if(EXISTS ${PROJECT_SOURCE_DIR}/test/model/run)
  weft_add_script_test(model model 1800 ${PROJECT_SOURCE_DIR}/test/model/run)
endif()

add_subdirectory(${PROJECT_SOURCE_DIR}/test/compile_fail)

weft_add_script_test(consumer consumer 900
  ${PROJECT_SOURCE_DIR}/test/consumer/run
  ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})

find_package(Python3 COMPONENTS Interpreter REQUIRED)
weft_add_script_test(tidy style 60
  ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/tidy ${PROJECT_SOURCE_DIR})
weft_add_script_test(tidy.self style 60
  ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/tidy --self-test)
weft_add_script_test(bench.self bench 120
  ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/bench --self-test)
# Counts mean something for optimised code only.
if(TARGET suite_weft AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  weft_add_script_test(bench.instructions bench 600
    ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/bench --no-build --instructions check
    --program $<TARGET_FILE:suite_weft>)
endif()
weft_add_script_test(format style 60 ${PROJECT_SOURCE_DIR}/scripts/format --check)

# Each requirement has a test that is named after it.
foreach(id IN ITEMS
    F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15 F16 F17
    T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T15 T16 T17 T22 T23 T24 T25
    C1 C2 C3 C4 C6 C7 C8 C9 C11 C12 C13 C14 C15 C16 C17 C18 C19 C21 C22 C23 C24 C25
    S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 B2)
  weft_add_script_test(Requirements.${id} style 60
    ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/requirements
    $<TARGET_FILE_DIR:test_base> ${id})
endforeach()
