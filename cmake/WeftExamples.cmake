# examples/<name>.cpp becomes
#   - the program example_<name>,
#   - the ctest example.<name> (with examples/<name>.expected its output must match exactly),
#   - a function example_<name>_main() in the library weft_demo_examples, from which the programs
#     and the command line tool's demo are built. So each is compiled once, and weft's headers,
#     which take longer than any of them, are read once for all.
# This asks three things of an example: main is `int main()` or `int main(int argc, char** argv)`,
# it ends in a return statement, and whatever else is defined sits in an unnamed namespace.

file(GLOB weft_examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)

set(weft_example_sources "")
foreach(source IN LISTS weft_examples)
  get_filename_component(name ${source} NAME_WE)
  set(renamed ${PROJECT_BINARY_DIR}/examples/${name}.cpp)
  file(CONFIGURE OUTPUT ${renamed} @ONLY CONTENT
    "#include <weft/weft.hpp>\n#define main example_@name@_main\n#include \"@source@\"\n")
  list(APPEND weft_example_sources ${renamed})
endforeach()

if(weft_examples)
  add_library(weft_demo_examples STATIC ${weft_example_sources})
  weft_target_defaults(weft_demo_examples)
  target_link_libraries(weft_demo_examples PUBLIC weft::weft)
  target_precompile_headers(weft_demo_examples PRIVATE <weft/weft.hpp>)
else()
  add_library(weft_demo_examples INTERFACE)
endif()

foreach(source IN LISTS weft_examples)
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} takes_arguments REGEX "^int main\\(int argc, char\\*\\* argv\\)")
  if(takes_arguments)
    set(main "int example_${name}_main(int argc, char** argv);
int main(int argc, char** argv) { return example_${name}_main(argc, argv); }")
  else()
    set(main "int example_${name}_main();\nint main() { return example_${name}_main(); }")
  endif()
  set(program ${PROJECT_BINARY_DIR}/examples/${name}_main.cpp)
  file(CONFIGURE OUTPUT ${program} @ONLY CONTENT "@main@\n")
  weft_add_program(example_${name} ${program})
  target_link_libraries(example_${name} PRIVATE weft_demo_examples)

  # ThreadSanitizer knows 8,128 threads and fibers at a time; cores may have more.
  if(WEFT_BUILD_TESTS AND NOT (name STREQUAL "cores" AND WEFT_SANITIZE MATCHES "thread"))
    set(expected ${PROJECT_SOURCE_DIR}/examples/${name}.expected)
    add_test(NAME example.${name}
      COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/check-output.sh ${expected}
        ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:example_${name}>)
    set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 300)
  endif()
endforeach()

# The race that this example has: not seen on a pool, and seen in the first run of a simulation.
if(WEFT_BUILD_TESTS AND WEFT_SANITIZE STREQUAL "thread")
  target_link_libraries(example_race PRIVATE weft::races)
  add_test(NAME example.race.simulated COMMAND example_race --sim)
  set_tests_properties(example.race.simulated PROPERTIES LABELS "example" TIMEOUT 300
    PASS_REGULAR_EXPRESSION "race: a data race, in run 1 .seed 1")
endif()
