# examples/<name>.cpp becomes
#   - the program example_<name>,
#   - the ctest example.<name> (with examples/<name>.expected its output must match exactly),
#   - a function example_<name>_main() in the object library weft_demo_examples, from which the
#     command line tool builds its demo.
# The last point asks two things of an example: main ends in a return statement, and whatever else
# it defines sits in an unnamed namespace.

file(GLOB weft_examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)

if(weft_examples)
  add_library(weft_demo_examples OBJECT ${weft_examples})
  weft_target_defaults(weft_demo_examples)
  target_link_libraries(weft_demo_examples PUBLIC weft::weft)
else()
  add_library(weft_demo_examples INTERFACE)
endif()

foreach(source IN LISTS weft_examples)
  get_filename_component(name ${source} NAME_WE)
  weft_add_program(example_${name} ${source})

  # Source properties would also reach example_<name>; a definition that depends on the target
  # does not, hence the generator expression.
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS
    "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,weft_demo_examples>:main=example_${name}_main>")

  # ThreadSanitizer knows 8,128 threads and fibers at a time; cores may have more.
  if(WEFT_BUILD_TESTS AND NOT (name STREQUAL "cores" AND WEFT_SANITIZE MATCHES "thread"))
    set(expected ${PROJECT_SOURCE_DIR}/examples/${name}.expected)
    add_test(NAME example.${name}
      COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/check-output.sh ${expected}
        ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:example_${name}>)
    set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 300)
  endif()
endforeach()
