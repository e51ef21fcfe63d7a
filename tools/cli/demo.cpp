#include "demo.hpp"

#include "figures.hpp"

#include <array>
#include <cstdio>
#include <stdexcept>

int example_hello_main();
int example_pingpong_main();
int example_timeout_main();
int example_both_kinds_main();
int example_cancel_tree_main();

namespace weft::cli {

namespace {

struct Example {
  const char* name;
  const char* about;
  int (*run)();
};

constexpr std::array examples{
    Example{"hello", "A scope with two fibers and a coroutine; the scope outlives them all.",
            &example_hello_main},
    Example{"pingpong", "Two fibers meet on channels without buffer, 200,000 times.",
            &example_pingpong_main},
    Example{"timeout", "Any wait can be timed, and so can any computation. Virtual clock.",
            &example_timeout_main},
    Example{"both_kinds", "Fibers and coroutines share channels and scopes, and call each other.",
            &example_both_kinds_main},
    Example{"cancel_tree", "One failure stops its siblings; they clean up; the rest goes on.",
            &example_cancel_tree_main},
};
constexpr const char* figures_name = "figures";

int run_example(const Example& example) {
  std::printf("\n== %s: %s (examples/%s.cpp)\n", example.name, example.about, example.name);
  std::fflush(stdout);
  const int code = example.run();
  std::fflush(stdout);
  if (code != 0) std::fprintf(stderr, "weft: example %s ended with %d\n", example.name, code);
  return code;
}

}  // namespace

std::string demo_names() {
  std::string names;
  for (const Example& example : examples) names += std::string(example.name) + ", ";
  return names + figures_name;
}

int run_demo(const std::string& only) {
  if (only == figures_name) return print_figures();
  for (const Example& example : examples) {
    if (!only.empty() && only != example.name) continue;
    if (const int code = run_example(example); code != 0 || !only.empty()) return code;
  }
  if (!only.empty()) {
    throw std::invalid_argument("demo: there is no example '" + only +
                                "'; choose one of: " + demo_names());
  }
  return print_figures();
}

}  // namespace weft::cli
