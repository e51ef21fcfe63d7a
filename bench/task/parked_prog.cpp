// How much memory does a parked task take? Usage: prog_parked [fiber|coroutine [COUNT
// [STACK_SIZE]]] Without arguments, both kinds, each in a process of its own. Parks COUNT tasks
// (default 1,000,000) on one channel, prints resident memory per task and the page tables, then
// wakes all of them and checks that each one ran.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace weft;

double field(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(line.find(':') + 1)) * 1024;
  }
  return 0;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Coro<> wait_in_coroutine(Channel<int>& gate, std::size_t& woken) {
  co_await gate.recv_op();
  ++woken;
}

int measure(const std::string& kind, std::size_t count, std::size_t stack_size) {
  Loop loop({.io = {.stack_size = stack_size}});
  std::size_t woken = 0;
  loop.run([&] {
    Channel<int> gate;
    const double rss = field("VmRSS");
    const double tables = field("VmPTE");
    const double start = seconds();
    Scope scope;
    for (std::size_t i = 0; i < count; ++i) {
      if (kind == "fiber") {
        scope.spawn([&] {
          gate.recv();
          ++woken;
        });
      } else {
        scope.spawn(wait_in_coroutine(gate, woken));
      }
    }
    yield();
    const double parked = seconds();
    const auto n = static_cast<double>(count);
    std::printf("%zu parked %ss: %.0f bytes resident each, page tables %.0f bytes each\n", count,
                kind.c_str(), (field("VmRSS") - rss) / n, (field("VmPTE") - tables) / n);
    std::printf("spawned and parked in %.0f ns each", (parked - start) * 1e9 / n);
    gate.close();
    scope.join();
    std::printf(", woken and finished in %.0f ns each\n", (seconds() - parked) * 1e9 / n);
  });
  const auto stacks = loop.stacks().stats();
  std::printf("guards: %s (%s)\n", to_string(stacks.guard), stacks.guard_reason.c_str());
  if (woken != count) {
    std::fprintf(stderr, "only %zu of %zu tasks were woken\n", woken, count);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const char* kind : {"fiber", "coroutine"}) {
      const pid_t child = ::fork();
      if (child == 0) return measure(kind, 1'000'000, 0);
      int status = 0;
      if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    return 0;
  }
  const std::string kind = argv[1];
  if (kind != "fiber" && kind != "coroutine") {
    std::fprintf(stderr, "usage: %s [fiber|coroutine [COUNT [STACK_SIZE]]]\n", argv[0]);
    return 2;
  }
  return measure(kind, argc > 2 ? std::strtoul(argv[2], nullptr, 0) : 1'000'000,
                 argc > 3 ? std::strtoul(argv[3], nullptr, 0) : 0);
}
