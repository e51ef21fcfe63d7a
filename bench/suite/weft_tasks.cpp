// Tasks as such: switching, yielding, spawning, joining.
#include <weft/stack/stack_pool.hpp>
#include <weft/stack/strand.hpp>

#include "suite/weft_suite.hpp"

#include <array>
#include <atomic>

namespace weft::bench {

namespace {

using suite::Clock;
using suite::per;
using suite::Result;

// The bare switch: three words and a jump, as the limit does it.
stack::Context context_here, context_there;

Result switch_contexts(const Run& run) {
  stack::StackPool stacks;
  const stack::Stack stack = stacks.take();
  context_there = stack::make_context(stack.top(), [](void*) {
    for (;;) stack::switch_context(context_there, context_here, nullptr);
  });
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size / 2; ++i) {
    stack::switch_context(context_here, context_there, nullptr);
  }
  const double ns = per(start, run.size);
  stacks.give(stack);
  return ns;
}

// All that a fiber's switch does: exception state and floating-point control besides.
stack::Strand strand_here, strand_there;
stack::ThreadState this_thread;

Result switch_strands(const Run& run) {
  stack::StackPool stacks;
  const stack::Stack stack = stacks.take();
  this_thread = stack::ThreadState::capture();
  strand_there.context = stack::make_context(stack.top(), [](void*) {
    for (;;) stack::switch_strand(strand_there, strand_here, this_thread, nullptr);
  });
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size / 2; ++i) {
    stack::switch_strand(strand_here, strand_there, this_thread, nullptr);
  }
  const double ns = per(start, run.size);
  stacks.give(stack);
  return ns;
}

template <std::size_t tasks>
Result yield_fibers(const Run& run) {
  return on_workers(run, [&] {
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t t = 0; t < tasks; ++t) {
      scope.spawn([each = run.size / tasks] {
        for (std::size_t i = 0; i < each; ++i) yield();
      });
    }
    scope.join();
    return per(start, run.size);
  });
}
template <std::size_t tasks>
Result yield_coros(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t t = 0; t < tasks; ++t) {
      scope.spawn([each = run.size / tasks]() -> Coro<> {
        for (std::size_t i = 0; i < each; ++i) co_await next_turn();
      });
    }
    co_await scope.joined();
    co_return per(start, run.size);
  });
}

Result spawn_join_fiber(const Run& run) {
  return on_workers(run, [&] {
    Scope scope;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) scope.spawn([] {}).get();
    return per(start, run.size);
  });
}
Result spawn_join_coro(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    Scope scope;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) {
      auto child = scope.spawn([]() -> Coro<> { co_return; });
      static_cast<void>(co_await std::move(child).join_op());
    }
    const double ns = per(start, run.size);
    co_await scope.joined();
    co_return ns;
  });
}

Result fanout_fiber(const Run& run) {
  return on_workers(run, [&] {
    std::atomic<std::size_t> ran{0};
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < run.size; ++i) {
      scope.spawn([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    }
    scope.join();
    suite::expect(ran == run.size, "not every task ran");
    return per(start, run.size);
  });
}
Result fanout_coro(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    std::atomic<std::size_t> ran{0};
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < run.size; ++i) {
      scope.spawn([&]() -> Coro<> {
        ran.fetch_add(1, std::memory_order_relaxed);
        co_return;
      });
    }
    co_await scope.joined();
    suite::expect(ran == run.size, "not every task ran");
    co_return per(start, run.size);
  });
}

/// A plain thread spawns into an engine and waits until all have run.
template <class Engine>
double burst_into(Engine& engine, std::size_t count) {
  std::atomic<std::size_t> ran{0};
  const auto start = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    engine.spawn([&] { ran.fetch_add(1, std::memory_order_relaxed); });
  }
  engine.run();
  const double ns = per(start, count);
  suite::expect(ran == count, "not every task ran");
  return ns;
}
Result burst(const Run& run) {
  if (run.workers == 1) {
    Loop loop;
    return burst_into(loop, run.size);
  }
  Pool pool({.workers = run.workers, .report_stuck_after = Duration::zero()});
  return burst_into(pool, run.size);
}

constexpr std::array benchmarks{
    Benchmark{"switch", "ns", 50'000'000, &switch_contexts},
    Benchmark{"switch_full", "ns", 50'000'000, &switch_strands},
    Benchmark{"yield", "ns", 5'000'000, &yield_fibers<2>},
    Benchmark{"yield_coro", "ns", 5'000'000, &yield_coros<2>},
    Benchmark{"yield_100", "ns", 5'000'000, &yield_fibers<100>},
    Benchmark{"yield_100_coro", "ns", 5'000'000, &yield_coros<100>},
    Benchmark{"spawn_join", "ns", 500'000, &spawn_join_fiber},
    Benchmark{"spawn_join_coro", "ns", 500'000, &spawn_join_coro},
    Benchmark{"fanout_1m", "ns/task", 1'000'000, &fanout_fiber},
    Benchmark{"fanout_1m_coro", "ns/task", 1'000'000, &fanout_coro},
    Benchmark{"spawn_burst_100k", "ns/task", 100'000, &burst},
};

}  // namespace

std::span<const Benchmark> task_benchmarks() {
  return benchmarks;
}

}  // namespace weft::bench
