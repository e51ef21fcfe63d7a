// What touches the machine: sleeping workers, timers, memory.
#include "suite/weft_suite.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace weft::bench {

namespace {

using namespace std::chrono_literals;
using suite::Clock;
using suite::Result;

/// From a plain thread's send to the parked task's next line, when all workers sleep. `read` makes
/// a task's body that notes how long each value took.
template <class Read>
Result wake_latency(const Run& run, Read read) {
  Channel<Clock::time_point> sent;
  std::vector<double> ns;
  std::jthread sender([&] {
    for (std::size_t i = 0; i < run.size; ++i) {
      std::this_thread::sleep_for(1ms);
      sent.send(Clock::now());
    }
    sent.close();
  });
  on_workers(run, read(sent, ns));
  return suite::median_us(std::move(ns));
}
Result wake_fiber(const Run& run) {
  return wake_latency(run, [](auto& sent, auto& ns) {
    return [&] {
      while (auto when = sent.recv()) ns.push_back(suite::ns_since(*when));
    };
  });
}
Result wake_coro(const Run& run) {
  return wake_latency(run, [](auto& sent, auto& ns) {
    return [&]() -> Coro<> {
      while (auto when = co_await sent.recv_op()) ns.push_back(suite::ns_since(*when));
    };
  });
}

/// Stacks of tasks that do next to nothing.
constexpr std::size_t small_stack = 16 << 10;

/// Every task sleeps once, for times spread evenly over a second.
Duration nap(std::size_t i, std::size_t count) {
  return std::chrono::nanoseconds(1'000'000'000 / count * i);
}
Result timers_fiber(const Run& run) {
  const double before = suite::cpu_ms();
  on_workers(
      run,
      [&] {
        Scope scope;
        for (std::size_t i = 0; i < run.size; ++i) {
          scope.spawn([&, i] { sleep(nap(i, run.size)); });
        }
        scope.join();
      },
      small_stack);
  return suite::cpu_ms() - before;
}
Result timers_coro(const Run& run) {
  const double before = suite::cpu_ms();
  on_workers(run, [&]() -> Coro<> {
    Scope scope;
    for (std::size_t i = 0; i < run.size; ++i) {
      scope.spawn([&, i]() -> Coro<> { co_await sleep_op(nap(i, run.size)); });
    }
    co_await scope.joined();
  });
  return suite::cpu_ms() - before;
}

/// Memory of a task that waits on a channel, all on the same one.
Result memory_fiber(const Run& run) {
  std::atomic<std::size_t> woken{0};
  const double bytes = on_workers(run, [&] {
    Channel<int> gate;
    std::atomic<std::size_t> parked{0};
    const double before = suite::resident_bytes();
    Scope scope;
    for (std::size_t i = 0; i < run.size; ++i) {
      scope.spawn([&] {
        ++parked;
        gate.recv();
        ++woken;
      });
    }
    while (parked < run.size) yield();
    const double used = suite::resident_bytes() - before;
    gate.close();
    scope.join();
    return used;
  });
  suite::expect(woken == run.size, "not every task was woken");
  return bytes / static_cast<double>(run.size);
}
Result memory_coro(const Run& run) {
  std::atomic<std::size_t> woken{0};
  const double bytes = on_workers(run, [&]() -> Coro<double> {
    Channel<int> gate;
    std::atomic<std::size_t> parked{0};
    const double before = suite::resident_bytes();
    Scope scope;
    for (std::size_t i = 0; i < run.size; ++i) {
      scope.spawn([&]() -> Coro<> {
        ++parked;
        co_await gate.recv_op();
        ++woken;
      });
    }
    while (parked < run.size) co_await next_turn();
    const double used = suite::resident_bytes() - before;
    gate.close();
    co_await scope.joined();
    co_return used;
  });
  suite::expect(woken == run.size, "not every task was woken");
  return bytes / static_cast<double>(run.size);
}

constexpr std::array benchmarks{
    Benchmark{"wake_latency", "us", 200, &wake_fiber},
    Benchmark{"wake_latency_coro", "us", 200, &wake_coro},
    Benchmark{"timers_1m", "ms CPU", 1'000'000, &timers_fiber},
    Benchmark{"timers_1m_coro", "ms CPU", 1'000'000, &timers_coro},
    Benchmark{"memory_1m", "bytes", 1'000'000, &memory_fiber},
    Benchmark{"memory_1m_coro", "bytes", 1'000'000, &memory_coro},
};

}  // namespace

std::span<const Benchmark> world_benchmarks() {
  return benchmarks;
}

}  // namespace weft::bench
