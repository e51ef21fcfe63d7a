#include "figures.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace weft::cli {

namespace {

double median_ns(int count, auto body) {
  std::array<double, 5> runs{};
  for (double& run : runs) {
    const auto start = std::chrono::steady_clock::now();
    body();
    run =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
        count;
  }
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

/// Resident memory of this process in bytes.
double resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

Coro<> park_coroutine() {
  co_await never();
}

/// Bytes per parked task, and a check that all of them could be cancelled and are gone.
template <class F>
double bytes_per_parked(int count, F parked) {
  Loop loop({.io = {.stack_size = 64 << 10}, .on_deadlock = OnDeadlock::wait});
  const double before = resident();
  double each = 0;
  loop.run([&] {
    Scope scope;
    for (int i = 0; i < count; ++i) scope.spawn(parked);
    yield();  // everybody starts, and parks
    each = (resident() - before) / count;
    scope.cancel();
  });
  return each;
}

void line(const char* what, double value, const char* unit) {
  std::printf("  %-46s %10.1f %s\n", what, value, unit);
  std::fflush(stdout);
}

}  // namespace

int print_figures() {
  std::printf("\n== figures of this machine, one thread, median of 5 (see `make bench`)\n");
  Loop loop;
  constexpr int n = 200'000;
  line("yield between two fibers",
       median_ns(2 * n,
                 [&] {
                   loop.run([] {
                     Scope scope;
                     for (int i = 0; i < 2; ++i) {
                       scope.spawn([] {
                         for (int k = 0; k < n; ++k) yield();
                       });
                     }
                   });
                 }),
       "ns");
  line("spawn a fiber and join it",
       median_ns(n,
                 [&] {
                   loop.run([] {
                     Scope scope;
                     for (int k = 0; k < n; ++k) scope.spawn([] {}).get();
                   });
                 }),
       "ns");
  line("spawn a coroutine and join it",
       median_ns(n,
                 [&] {
                   loop.run([] {
                     Scope scope;
                     for (int k = 0; k < n; ++k) scope.spawn([]() -> Coro<> { co_return; }).get();
                   });
                 }),
       "ns");
  line("100,000 parked fibers, memory each", bytes_per_parked(100'000, [] { perform(never()); }),
       "bytes");
  line("100,000 parked coroutines, memory each", bytes_per_parked(100'000, &park_coroutine),
       "bytes");
  const stack::StackStats stacks = loop.stacks().stats();
  std::printf("  stacks are guarded by %s: %s\n", to_string(stacks.guard),
              stacks.guard_reason.c_str());
  return 0;
}

}  // namespace weft::cli
