// Hot paths, one operation each time and nothing else, for counting instructions: two runs with N
// and 2 N operations differ by N of them. See bench/driver/instructions.py.
#include <weft/wait/park.hpp>

#include "suite/weft_suite.hpp"

#include <array>

namespace weft::bench {

namespace {

using suite::Clock;
using suite::per;
using suite::Result;

/// `operation` again and again, in a fiber on a loop.
template <class F>
Result repeat(const Run& run, F operation) {
  return on_workers(run, [&] {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) operation();
    return per(start, run.size);
  });
}

Result path_channel(const Run& run) {
  Channel<std::size_t> values(16);
  return repeat(run, [&] {
    values.send(1);
    values.recv();
  });
}

Result path_mutex(const Run& run) {
  Mutex mutex;
  return repeat(run, [&] { const auto guard = mutex.lock(); });
}

Result path_spawn_join(const Run& run) {
  return repeat(run, [] {
    Scope scope;
    scope.spawn([] {}).get();
  });
}
Result path_spawn_join_coro(const Run& run) {
  return repeat(run, [] {
    Scope scope;
    scope.spawn([]() -> Coro<> { co_return; }).get();
  });
}

/// Two fibers that park in turn; an operation is a park and the unpark that ends it.
Result path_park(const Run& run) {
  return on_workers(run, [&] {
    Parker mine;
    Parker other;
    const auto always = [] { return true; };
    Scope scope;
    scope.spawn([&] {
      for (std::size_t i = 0; i < run.size / 2; ++i) {
        other.park_if(always);
        mine.unpark();
      }
    });
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size / 2; ++i) {
      other.unpark();
      mine.park_if(always);
    }
    return per(start, run.size);
  });
}

constexpr std::array benchmarks{
    Benchmark{"path_park", "ns", 2'000'000, &path_park},
    Benchmark{"path_channel", "ns", 5'000'000, &path_channel},
    Benchmark{"path_mutex", "ns", 10'000'000, &path_mutex},
    Benchmark{"path_spawn_join", "ns", 500'000, &path_spawn_join},
    Benchmark{"path_spawn_join_coro", "ns", 500'000, &path_spawn_join_coro},
};

}  // namespace

std::span<const Benchmark> path_benchmarks() {
  return benchmarks;
}

}  // namespace weft::bench
