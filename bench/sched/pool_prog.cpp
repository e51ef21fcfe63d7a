// What a pool is good for, in figures: prog_pool [--workers 1,2] [--rounds 5] [NAME...]
//
// Each line is one benchmark on one number of workers, as fibers and as coroutines: the median of
// several rounds, and the best.
#include <weft/weft.hpp>

#include "sched/busy.hpp"
#include "sched/trees.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Each measures once, and gives nanoseconds per operation

using Measure = double (*)(Pool& pool);

double spawn_join_fiber(Pool& pool) {
  constexpr int count = 200'000;
  return pool.run([] {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) {
      Scope scope;
      scope.spawn([] {}).get();
    }
    return ns_since(start) / count;
  });
}
double spawn_join_coro(Pool& pool) {
  constexpr int count = 200'000;
  return pool.run([]() -> Coro<double> {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) {
      Scope scope;
      auto h = scope.spawn([]() -> Coro<> { co_return; });
      co_await h.join_op();
      co_await scope.joined();
    }
    co_return ns_since(start) / count;
  });
}

double fanout_fiber(Pool& pool) {
  constexpr int count = 1'000'000;
  return pool.run([] {
    std::atomic<int> ran{0};
    const auto start = Clock::now();
    {
      Scope scope;
      for (int i = 0; i < count; ++i) {
        scope.spawn([&] { ran.fetch_add(1, std::memory_order_relaxed); });
      }
      scope.join();
    }
    return ns_since(start) / count;
  });
}
double fanout_coro(Pool& pool) {
  constexpr int count = 1'000'000;
  return pool.run([]() -> Coro<double> {
    std::atomic<int> ran{0};
    const auto start = Clock::now();
    Scope scope;
    for (int i = 0; i < count; ++i) {
      scope.spawn([&]() -> Coro<> {
        ran.fetch_add(1, std::memory_order_relaxed);
        co_return;
      });
    }
    co_await scope.joined();
    co_return ns_since(start) / count;
  });
}

template <auto tree>
double skynet_ms(Pool& pool) {
  const auto start = Clock::now();
  if (pool.run([] { return tree(0, 1'000'000); }) != 499'999'500'000) std::abort();
  return ns_since(start) / 1e6;
}

/// Per call that could be made elsewhere; fib(n) makes fib(n + 1) - 1 of them.
template <auto tree, int n, int result, int calls>
double fib_ns(Pool& pool) {
  const auto start = Clock::now();
  if (pool.run([] { return tree(n); }) != result) std::abort();
  return ns_since(start) / calls;
}

template <bool apart>
double ping_pong_fiber(Pool& pool) {
  const int count = apart ? 20'000 : 200'000;
  return pool.run([count] {
    Channel<int> ping;
    Channel<int> pong;
    Scope scope;
    scope.spawn(
        [&] {
          while (auto got = ping.recv()) pong.send(*got);
        },
        {.worker = apart ? std::uint16_t{2} : std::uint16_t{0}});
    auto client = scope.spawn(
        [&] {
          const auto start = Clock::now();
          for (int i = 0; i < count; ++i) {
            ping.send(i);
            pong.recv();
          }
          ping.close();
          return ns_since(start) / count;
        },
        {.worker = apart ? std::uint16_t{1} : std::uint16_t{0}});
    return client.get();
  });
}
template <bool apart>
double ping_pong_coro(Pool& pool) {
  const int count = apart ? 20'000 : 200'000;
  return pool.run([count]() -> Coro<double> {
    Channel<int> ping;
    Channel<int> pong;
    Scope scope;
    scope.spawn(
        [&]() -> Coro<> {
          while (auto got = co_await ping.recv_op()) co_await pong.send_op(*got);
        },
        {.worker = apart ? std::uint16_t{2} : std::uint16_t{0}});
    auto client = scope.spawn(
        [&]() -> Coro<double> {
          const auto start = Clock::now();
          for (int i = 0; i < count; ++i) {
            co_await ping.send_op(i);
            co_await pong.recv_op();
          }
          ping.close();
          co_return ns_since(start) / count;
        },
        {.worker = apart ? std::uint16_t{1} : std::uint16_t{0}});
    const Outcome<double> result = co_await client.join_op();
    co_await scope.joined();
    co_return result.value();
  });
}

double yield_fiber(Pool& pool) {
  constexpr int count = 100'000;
  constexpr int tasks = 100;
  return pool.run([] {
    const auto start = Clock::now();
    Scope scope;
    for (int t = 0; t < tasks; ++t) {
      scope.spawn([] {
        for (int i = 0; i < count / tasks * 10; ++i) yield();
      });
    }
    scope.join();
    return ns_since(start) / (count * 10);
  });
}
double yield_coro(Pool& pool) {
  constexpr int count = 100'000;
  constexpr int tasks = 100;
  return pool.run([]() -> Coro<double> {
    const auto start = Clock::now();
    Scope scope;
    for (int t = 0; t < tasks; ++t) {
      scope.spawn([]() -> Coro<> {
        for (int i = 0; i < count / tasks * 10; ++i) co_await next_turn();
      });
    }
    co_await scope.joined();
    co_return ns_since(start) / (count * 10);
  });
}

/// From a plain thread's send to the parked task's next line, on a pool where all sleep.
double wake_up(Pool& pool) {
  constexpr int count = 200;
  Channel<Clock::time_point> ch;
  std::vector<double> ns;
  auto reader = pool.spawn([&] {
    while (auto sent = ch.recv()) ns.push_back(ns_since(*sent));
  });
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ch.send(Clock::now());
  }
  ch.close();
  reader.get();
  std::ranges::sort(ns);
  return ns[ns.size() / 2];
}

/// One event wakes a thousand.
double herd(Pool& pool) {
  constexpr int count = 1'000;
  return pool.run([] {
    Channel<int> ch;
    std::atomic<int> parked{0};
    Scope scope;
    for (int i = 0; i < count; ++i) {
      scope.spawn([&] {
        ++parked;
        ch.recv();
      });
    }
    while (parked < count) yield();
    const auto start = Clock::now();
    ch.close();
    scope.join();
    return ns_since(start) / count;
  });
}

double burst(Pool& pool) {
  constexpr int count = 100'000;
  std::atomic<int> ran{0};
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) pool.spawn([&] { ran.fetch_add(1, std::memory_order_relaxed); });
  pool.run();
  if (ran != count) std::abort();
  return ns_since(start) / count;
}

double sleepers(Pool& pool) {
  constexpr int count = 100'000;
  return pool.run([] {
    std::vector<double> late(count);
    Scope scope;
    const Instant begin = now() + std::chrono::seconds(1);  // all sleep by then
    for (int i = 0; i < count; ++i) {
      scope.spawn([&, i] {
        const Instant until = begin + std::chrono::microseconds(10) * i;
        sleep_until(until);
        late[static_cast<std::size_t>(i)] = static_cast<double>((now() - until).count());
      });
    }
    scope.join();
    std::ranges::sort(late);
    return late[late.size() * 99 / 100];
  });
}

struct Benchmark {
  const char* name;
  const char* unit;
  Measure fiber;
  Measure coro;
};

constexpr Benchmark benchmarks[] = {
    {"spawn_join", "ns", &spawn_join_fiber, &spawn_join_coro},
    {"yield_100", "ns", &yield_fiber, &yield_coro},
    {"fanout_1m", "ns/task", &fanout_fiber, &fanout_coro},
    {"skynet_1m", "ms", &skynet_ms<&skynet>, &skynet_ms<&skynet_coro>},
    {"skynet_tasks", "ms", &skynet_ms<&skynet_tasks>, &skynet_ms<&skynet_coro_tasks>},
    {"fib_32", "ns/call", &fib_ns<&fib, 32, 2'178'309, 3'524'577>,
     &fib_ns<&fib_coro, 32, 2'178'309, 3'524'577>},
    {"fib_tasks", "ns/call", &fib_ns<&fib_tasks, 24, 46'368, 75'024>,
     &fib_ns<&fib_coro_tasks, 24, 46'368, 75'024>},
    {"pingpong", "ns", &ping_pong_fiber<false>, &ping_pong_coro<false>},
    {"pingpong_apart", "ns", &ping_pong_fiber<true>, &ping_pong_coro<true>},
    {"wake_up", "ns", &wake_up, nullptr},
    {"herd_1000", "ns/task", &herd, nullptr},
    {"burst_100k", "ns/task", &burst, nullptr},
    {"sleepers_p99", "ns late", &sleepers, nullptr},
    {"sleepers_1m", "ms of CPU", &million_sleepers_fiber, &million_sleepers_coro},
    {"noisy", "ms late", &noisy_neighbours, nullptr},
    {"kidnapped", "ms", &kidnapped_workers, nullptr},
};

struct Options {
  std::vector<std::size_t> workers{1, 2};
  int rounds = 5;
  std::vector<std::string_view> names;
};

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
    std::fprintf(stderr, "prog_pool: '%.*s' is not a number above 0\n",
                 static_cast<int>(text.size()), text.data());
    std::exit(2);
  }
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help") {
      std::puts("prog_pool [--workers 1,2,...] [--rounds N] [NAME...]\nNames:");
      for (const Benchmark& b : benchmarks) std::printf("  %s\n", b.name);
      std::exit(0);
    } else if (word == "--rounds" && i + 1 < argc) {
      options.rounds = static_cast<int>(number(argv[++i]));
    } else if (word == "--workers" && i + 1 < argc) {
      options.workers.clear();
      std::string_view list = argv[++i];
      while (!list.empty()) {
        const auto comma = std::min(list.find(','), list.size());
        options.workers.push_back(number(list.substr(0, comma)));
        list.remove_prefix(std::min(comma + 1, list.size()));
      }
    } else {
      options.names.push_back(word);
    }
  }
  return options;
}

void run(const Benchmark& b, std::size_t workers, int rounds) {
  std::printf("%-16s %3zu ", b.name, workers);
  for (const Measure measure : {b.fiber, b.coro}) {
    if (measure == nullptr) continue;
    std::vector<double> results;
    for (int r = 0; r < rounds; ++r) {
      Pool pool({.workers = workers, .report_stuck_after = Duration::zero()});
      results.push_back(measure(pool));
    }
    std::ranges::sort(results);
    std::printf(" %12.1f %12.1f", results[results.size() / 2], results.front());
    std::fflush(stdout);
  }
  std::printf("  %s\n", b.unit);
}

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::printf("%-16s %3s  %12s %12s %12s %12s\n", "benchmark", "w", "fiber", "(best)", "coroutine",
              "(best)");
  for (const Benchmark& b : benchmarks) {
    const bool wanted =
        options.names.empty() || std::ranges::find(options.names, b.name) != options.names.end();
    if (!wanted) continue;
    for (const std::size_t workers : options.workers) run(b, workers, options.rounds);
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::main(argc, argv);
}
