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
int example_cores_main();
int example_sort_main();
int example_find_the_bug_main();
int example_replicated_counter_main(int argc, char** argv);
int example_echo_main(int argc, char** argv);
int example_chat_main(int argc, char** argv);
int example_proxy_main(int argc, char** argv);
int example_follow_main(int argc, char** argv);

namespace weft::cli {

namespace {

/// Examples that also take arguments show something by themselves when there are none.
template <int (*Main)(int, char**)>
int without_arguments() {
  char name[] = "weft";
  char* arguments[] = {name, nullptr};
  return Main(1, arguments);
}

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
    Example{"cores", "A tree of a million fibers on every core; idle workers steal branches.",
            &example_cores_main},
    Example{"sort", "Divide and conquer: forks are plain calls where nobody steals them.",
            &example_sort_main},
    Example{"find_the_bug", "Money that is lost once in a blue moon: when, and how. Simulation.",
            &example_find_the_bug_main},
    Example{"replicated_counter",
            "Five hosts that crash: what they lose is found; mended, they run for real.",
            &without_arguments<&example_replicated_counter_main>},
    Example{"echo", "A burst of 100 clients (coroutines) at a TCP server (fibers), on loopback.",
            &without_arguments<&example_echo_main>},
    Example{"proxy", "Bytes both ways through a TCP proxy; half closes are passed on.",
            &without_arguments<&example_proxy_main>},
    Example{"chat", "All hear what one says; somebody who does not read stalls nobody.",
            &without_arguments<&example_chat_main>},
    Example{"follow", "Follows a growing file through truncation and rotation.",
            &without_arguments<&example_follow_main>},
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
