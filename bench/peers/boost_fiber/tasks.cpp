// Fibers as such: switching, yielding, spawning, joining, timers, memory.
#include "boost_fiber/fibers.hpp"

#include <array>
#include <atomic>

#include <boost/context/detail/fcontext.hpp>

namespace fibers {

namespace {

using namespace suite;

Result switch_context(const Run& run) {
  namespace context = boost::context::detail;
  std::vector<char> stack(64 << 10);
  const auto there = context::make_fcontext(stack.data() + stack.size(), stack.size(),
                                            [](context::transfer_t from) {
                                              for (;;) from = context::jump_fcontext(from.fctx, 0);
                                            });
  context::transfer_t to{there, nullptr};
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size / 2; ++i) to = context::jump_fcontext(to.fctx, nullptr);
  return per(start, run.size);
}

template <std::size_t tasks>
Result yield(const Run& run) {
  return on_workers(run, [&] {
    const auto begin = Clock::now();
    std::vector<bf::fiber> all;
    for (std::size_t t = 0; t < tasks; ++t) {
      all.push_back(start([&] {
        for (std::size_t i = 0; i < run.size / tasks; ++i) boost::this_fiber::yield();
      }));
    }
    for (auto& fiber : all) fiber.join();
    return per(begin, run.size);
  });
}

Result spawn_join(const Run& run) {
  return on_workers(run, [&] {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) start([] {}).join();
    return per(begin, run.size);
  });
}

Result fanout(const Run& run) {
  return on_workers(run, [&] {
    std::atomic<std::size_t> ran{0};
    const auto begin = Clock::now();
    std::vector<bf::fiber> all;
    all.reserve(run.size);
    for (std::size_t i = 0; i < run.size; ++i) {
      all.push_back(start([&] { ran.fetch_add(1, std::memory_order_relaxed); }));
    }
    for (auto& fiber : all) fiber.join();
    const double ns = per(begin, run.size);
    expect(ran == run.size, "not every task ran");
    return ns;
  });
}

std::int64_t skynet_of(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) return number;
  std::array<std::int64_t, 10> sums{};
  std::array<bf::fiber, 10> children;
  for (std::size_t i = 0; i < 10; ++i) {
    children[i] = start(
        [=, &sums] {
          const auto part = static_cast<std::int64_t>(i) * leaves / 10;
          sums[i] = skynet_of(number + part, leaves / 10);
        },
        bf::launch::dispatch);
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    children[i].join();
    sum += sums[i];
  }
  return sum;
}
Result skynet(const Run& run) {
  return on_workers(run, [&] {
    const auto leaves = static_cast<std::int64_t>(run.size);
    const auto begin = Clock::now();
    const std::int64_t sum = skynet_of(0, leaves);
    const double ms = ms_since(begin);
    expect(sum == leaves * (leaves - 1) / 2, "the tree's result");
    return ms;
  });
}

int fib_of(int n) {
  if (n < 2) return n;
  int left = 0;
  bf::fiber child = start([&, n] { left = fib_of(n - 1); }, bf::launch::dispatch);
  const int right = fib_of(n - 2);
  child.join();
  return left + right;
}
/// Per fiber; fib(n) starts fib(n + 1) - 1 of them.
Result fib(const Run& run) {
  return on_workers(run, [&] {
    int result = 0;
    int next = 1;
    for (std::size_t i = 0; i < run.size; ++i) result = std::exchange(next, result + next);
    const auto begin = Clock::now();
    const int got = fib_of(static_cast<int>(run.size));
    const double ns = ns_since(begin);
    expect(got == result, "the tree's result");
    return ns / (next - 1);
  });
}

Result timers(const Run& run) {
  const double before = cpu_ms();
  on_workers(run, [&] {
    std::vector<bf::fiber> all;
    all.reserve(run.size);
    for (std::size_t i = 0; i < run.size; ++i) {
      const std::chrono::nanoseconds nap(1'000'000'000 / run.size * i);
      all.push_back(start([nap] { boost::this_fiber::sleep_for(nap); }));
    }
    for (auto& fiber : all) fiber.join();
    return 0;
  });
  return cpu_ms() - before;
}

Result memory(const Run& run) {
  return on_workers(run, [&] {
    bf::unbuffered_channel<int> gate;
    std::atomic<std::size_t> parked{0};
    std::atomic<std::size_t> woken{0};
    std::vector<bf::fiber> all;
    all.reserve(run.size);
    const double before = resident_bytes();
    for (std::size_t i = 0; i < run.size; ++i) {
      all.push_back(start([&] {
        ++parked;
        int value = 0;
        gate.pop(value);
        ++woken;
      }));
    }
    while (parked < run.size) boost::this_fiber::yield();
    const double used = resident_bytes() - before;
    gate.close();
    for (auto& fiber : all) fiber.join();
    expect(woken == run.size, "not every task was woken");
    return used / static_cast<double>(run.size);
  });
}

constexpr std::array benchmarks{
    Benchmark{"switch", "ns", 20'000'000, &switch_context},
    Benchmark{"yield", "ns", 3'000'000, &yield<2>},
    Benchmark{"yield_100", "ns", 3'000'000, &yield<100>},
    Benchmark{"spawn_join", "ns", 300'000, &spawn_join},
    Benchmark{"fanout_1m", "ns/task", 1'000'000, &fanout},
    Benchmark{"skynet_1m", "ms", 1'000'000, &skynet},
    Benchmark{"fib", "ns/call", 25, &fib},
    Benchmark{"timers_1m", "ms CPU", 1'000'000, &timers},
    Benchmark{"memory_1m", "bytes", 1'000'000, &memory},
};

}  // namespace

std::span<const Benchmark> task_benchmarks() {
  return benchmarks;
}

}  // namespace fibers
