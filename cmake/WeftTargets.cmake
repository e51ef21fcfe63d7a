# What every target of this project has in common. The library passes none of it on to its users.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(WEFT_CCACHE ccache)
  mark_as_advanced(WEFT_CCACHE)
  if(WEFT_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
  endif()
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)  # the context switch is inline assembly
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

# For the whole directory tree rather than per target: a googletest built from source must be
# instrumented like everything it is linked with.
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

set(weft_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual)
if(WEFT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's documentation: instrumentation makes this warning fire on correct code.
  list(APPEND weft_warnings -Wno-maybe-uninitialized)
endif()
if(WEFT_WARNINGS_AS_ERRORS)
  list(APPEND weft_warnings -Werror)
endif()

# Warnings for C++, and frame pointers so that perf and gdb walk every stack cheaply.
# Executables export their symbols, so that an in-process backtrace shows names.
function(weft_target_defaults target)
  target_compile_options(${target} PRIVATE
    -fno-omit-frame-pointer "$<$<COMPILE_LANGUAGE:CXX>:${weft_warnings}>")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  endif()
endfunction()

# weft_add_program(target source...): an executable linked with the library.
function(weft_add_program target)
  add_executable(${target} ${ARGN})
  weft_target_defaults(${target})
  target_link_libraries(${target} PRIVATE weft::weft)
endfunction()
