# bench/**/<name>_bench.cpp becomes bench_<name>, a Google Benchmark program.
# bench/**/<name>_prog.cpp becomes prog_<name>, a plain program that prints its own figures.
# bench/net/*.cpp together become bench_echo, a plain program as well.
# bench/suite/ is what tools/bench runs: suite_weft is weft's contender, suite_limit shows what the
# machine allows, suite_echo_load is the client of all echo servers. tools/bench builds the peers.

file(GLOB_RECURSE weft_bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*_bench.cpp)
file(GLOB_RECURSE weft_bench_programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*_prog.cpp)
list(FILTER weft_bench_sources EXCLUDE REGEX "/bench/net/")

find_package(benchmark QUIET)
if(weft_bench_sources AND NOT benchmark_FOUND)
  message(STATUS "weft: Google Benchmark not found, bench_* programs are not built")
  set(weft_bench_sources "")
endif()

foreach(source IN LISTS weft_bench_sources weft_bench_programs)
  get_filename_component(stem ${source} NAME_WE)
  if(stem MATCHES "^(.*)_bench$")
    set(target bench_${CMAKE_MATCH_1})
  elseif(stem MATCHES "^(.*)_prog$")
    set(target prog_${CMAKE_MATCH_1})
  endif()
  weft_add_program(${target} ${source})
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench)
  if(target MATCHES "^bench_")
    target_link_libraries(${target} PRIVATE benchmark::benchmark benchmark::benchmark_main)
  endif()
endforeach()

file(GLOB weft_echo_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/net/*.cpp)
weft_add_program(bench_echo ${weft_echo_sources})
target_include_directories(bench_echo PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench)
if(weft_has_uring)
  target_link_libraries(bench_echo PRIVATE Liburing::Liburing)
  target_compile_definitions(bench_echo PRIVATE WEFT_BENCH_URING)
endif()

add_custom_target(weft_bench_suite)
function(weft_add_suite_program target)
  weft_add_program(${target} ${ARGN})
  # Nobody measures a sanitizer or an emulator.
  if(WEFT_SANITIZE OR CMAKE_CROSSCOMPILING)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench)
  if(weft_has_uring)
    target_link_libraries(${target} PRIVATE Liburing::Liburing)
    target_compile_definitions(${target} PRIVATE WEFT_BENCH_URING)
  endif()
  add_dependencies(weft_bench_suite ${target})
endfunction()

set(weft_net ${PROJECT_SOURCE_DIR}/bench/net)
set(weft_raw_servers ${weft_net}/raw_epoll.cpp)
set(weft_echo_client ${weft_net}/echo_client.cpp ${weft_net}/epoll_transport.cpp
  ${weft_net}/server_process.cpp)
if(weft_has_uring)
  list(APPEND weft_raw_servers ${weft_net}/raw_uring.cpp ${weft_net}/uring.cpp)
  list(APPEND weft_echo_client ${weft_net}/uring_transport.cpp ${weft_net}/uring.cpp)
endif()
file(GLOB weft_suite_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/suite/weft_*.cpp)
weft_add_suite_program(suite_weft ${weft_suite_sources})
file(GLOB weft_limit_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/peers/limit/*.cpp)
weft_add_suite_program(suite_limit ${weft_limit_sources} ${weft_raw_servers})
weft_add_suite_program(suite_echo_load
  ${PROJECT_SOURCE_DIR}/bench/suite/echo_load.cpp ${weft_echo_client})
