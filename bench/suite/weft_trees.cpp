// Fork and join: trees of calls that may be made elsewhere.
#include "sched/trees.hpp"
#include "suite/weft_suite.hpp"

#include <array>
#include <type_traits>
#include <utility>

namespace weft::bench {

namespace {

using suite::Clock;
using suite::Result;

/// Runs `tree(arguments...)`, which is a call or a coroutine, and gives what it took in ns.
template <auto tree, class Value, class... Arguments>
double timed(const Run& run, Value expected, Arguments... arguments) {
  const auto check = [=](Value got) { suite::expect(got == expected, "the tree's result"); };
  if constexpr (std::is_same_v<decltype(tree(arguments...)), Value>) {
    return on_pool(run, [=] {
      const auto start = Clock::now();
      const Value got = tree(arguments...);
      const double ns = suite::ns_since(start);
      check(got);
      return ns;
    });
  } else {
    return on_pool(run, [=]() -> Coro<double> {
      const auto start = Clock::now();
      const Value got = co_await tree(arguments...);
      const double ns = suite::ns_since(start);
      check(got);
      co_return ns;
    });
  }
}

/// The sum of the numbers of a million leaves, ten branches at each level.
template <auto tree>
Result skynet_ms(const Run& run) {
  const auto leaves = static_cast<std::int64_t>(run.size);
  return timed<tree>(run, leaves * (leaves - 1) / 2, std::int64_t{0}, leaves) / 1e6;
}

/// Per call that could be made elsewhere; fib(n) makes fib(n + 1) - 1 of them.
template <auto tree>
Result fib_ns(const Run& run) {
  int result = 0;
  int next = 1;
  for (std::size_t i = 0; i < run.size; ++i) result = std::exchange(next, result + next);
  return timed<tree>(run, result, static_cast<int>(run.size)) / (next - 1);
}

constexpr std::array benchmarks{
    Benchmark{"skynet_1m", "ms", 1'000'000, &skynet_ms<&skynet>},
    Benchmark{"skynet_1m_coro", "ms", 1'000'000, &skynet_ms<&skynet_coro>},
    Benchmark{"skynet_1m_tasks", "ms", 1'000'000, &skynet_ms<&skynet_tasks>},
    Benchmark{"fib", "ns/call", 36, &fib_ns<&fib>},
    Benchmark{"fib_coro", "ns/call", 33, &fib_ns<&fib_coro>},
    Benchmark{"fib_tasks", "ns/call", 28, &fib_ns<&fib_tasks>},
};

}  // namespace

std::span<const Benchmark> tree_benchmarks() {
  return benchmarks;
}

}  // namespace weft::bench
