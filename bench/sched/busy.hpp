/// A pool under bad neighbours, and one with a great many sleepers.
#pragma once

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <sys/resource.h>

namespace weft::bench {

inline double cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// One task per worker computes for 3 s without ever waiting. How late, at worst, is a beat that is
/// due every 100 ms?
inline double noisy_neighbours(Pool& pool) {
  return pool.run([&pool] {
    using namespace std::chrono_literals;
    std::atomic<bool> stop{false};
    Scope scope;
    for (std::size_t i = 0; i < pool.workers(); ++i) {
      scope.spawn([&] {
        while (!stop.load(std::memory_order_relaxed)) spin_pause();
      });
    }
    double worst = 0;
    const Instant start = now();
    for (int beat = 1; beat <= 30; ++beat) {
      const Instant due = start + beat * 100ms;
      sleep_until(due);
      worst = std::max(worst, static_cast<double>((now() - due).count()) / 1e6);
    }
    stop = true;
    scope.join();
    return worst;
  });
}

/// One task per worker blocks its thread for half a second. How long do 10,000 short tasks take?
inline double kidnapped_workers(Pool& pool) {
  return pool.run([&pool] {
    using namespace std::chrono_literals;
    Scope scope;
    for (std::size_t i = 0; i < pool.workers(); ++i) {
      scope.spawn([] { std::this_thread::sleep_for(500ms); });
    }
    yield();
    const Instant start = now();
    {
      Scope tasks;
      for (int i = 0; i < 10'000; ++i) tasks.spawn([] { yield(); });
      tasks.join();
    }
    const double ms = static_cast<double>((now() - start).count()) / 1e6;
    scope.join();
    return ms;
  });
}

/// A million sleep for times spread over a second.
inline double million_sleepers_fiber(Pool& pool) {
  constexpr int count = 1'000'000;
  const double before = cpu_ms();
  pool.run([] {
    Scope scope;
    for (int i = 0; i < count; ++i) {
      scope.spawn([i] { sleep(std::chrono::microseconds(i)); }, {.stack_size = 16384});
    }
    scope.join();
  });
  return cpu_ms() - before;
}
inline double million_sleepers_coro(Pool& pool) {
  constexpr int count = 1'000'000;
  const double before = cpu_ms();
  pool.run([]() -> Coro<> {
    Scope scope;
    for (int i = 0; i < count; ++i) {
      scope.spawn([i]() -> Coro<> { co_await sleep_op(std::chrono::microseconds(i)); });
    }
    co_await scope.joined();
  });
  return cpu_ms() - before;
}

}  // namespace weft::bench
