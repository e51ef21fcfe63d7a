// Tasks on the one-thread loop: yield, spawn and join, fan-out, channels, timers.
#include <weft/weft.hpp>

#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace weft;
using namespace std::chrono_literals;

/// One item is one yield.
void yield_fibers(benchmark::State& state) {
  Loop loop;
  const auto tasks = state.range(0);
  constexpr int each = 100'000;
  for (auto _ : state) {
    loop.run([&] {
      Scope scope;
      for (std::int64_t i = 0; i < tasks; ++i) {
        scope.spawn([&] {
          for (std::int64_t k = 0; k < each * 2 / tasks; ++k) yield();
        });
      }
    });
  }
  state.SetItemsProcessed(state.iterations() * 2 * each);
}
BENCHMARK(yield_fibers)->Arg(2)->Arg(100);

void yield_coroutines(benchmark::State& state) {
  Loop loop;
  constexpr int each = 100'000;
  for (auto _ : state) {
    loop.run([&] {
      Scope scope;
      for (int i = 0; i < 2; ++i) {
        scope.spawn([]() -> Coro<> {
          for (int k = 0; k < each; ++k) co_await next_turn();
        });
      }
    });
  }
  state.SetItemsProcessed(state.iterations() * 2 * each);
}
BENCHMARK(yield_coroutines);

constexpr int batch = 10'000;

void spawn_join_fiber(benchmark::State& state) {
  Loop loop;
  for (auto _ : state) {
    loop.run([] {
      Scope scope;
      for (int i = 0; i < batch; ++i) scope.spawn([] {}).get();
    });
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(spawn_join_fiber);

void spawn_join_coroutine(benchmark::State& state) {
  Loop loop;
  for (auto _ : state) {
    loop.run([]() -> Coro<> {
      Scope scope;
      for (int i = 0; i < batch; ++i) {
        auto handle = scope.spawn([]() -> Coro<> { co_return; });
        co_await handle.done_op();
      }
    });
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(spawn_join_coroutine);

void fan_out(benchmark::State& state) {
  Loop loop;
  const auto tasks = state.range(0);
  for (auto _ : state) {
    loop.run([&] {
      Scope scope;
      for (std::int64_t i = 0; i < tasks; ++i) scope.spawn([] {});
    });
  }
  state.SetItemsProcessed(state.iterations() * tasks);
}
BENCHMARK(fan_out)->Arg(1'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void coro_call(benchmark::State& state) {
  auto callee = [](int i) -> Coro<int> { co_return i; };
  block_on([&]() -> Coro<> {
    for (auto _ : state) benchmark::DoNotOptimize(co_await callee(1));
  });
}
BENCHMARK(coro_call);

void ping_pong(benchmark::State& state) {
  Loop loop;
  loop.run([&] {
    Channel<int> there;
    Channel<int> back;
    Scope scope;
    scope.spawn([&] {
      while (auto v = there.recv()) back.send(*v);
    });
    for (auto _ : state) {
      there.send(1);
      back.recv();
    }
    there.close();
  });
}
BENCHMARK(ping_pong);

void timer_arm_and_disarm(benchmark::State& state) {
  Loop loop;
  const auto others = static_cast<std::size_t>(state.range(0));
  struct Timer : TimerNode {
    Timer() : TimerNode([](TimerNode&, WakeList&) noexcept {}) {}
  };
  std::vector<Timer> timers(others);
  const Instant start = loop.now();
  Rng rng(1);
  for (Timer& timer : timers) {
    timer.deadline = start + 1h + std::chrono::nanoseconds(rng.below(1'000'000'000));
    loop.arm_timer(timer);
  }
  Timer mine;
  for (auto _ : state) {
    mine.deadline = start + 1h + std::chrono::nanoseconds(rng.below(1'000'000'000));
    loop.arm_timer(mine);
    loop.disarm_timer(mine);
  }
  for (Timer& timer : timers) loop.disarm_timer(timer);
}
BENCHMARK(timer_arm_and_disarm)->Arg(0)->Arg(1'000'000);

}  // namespace

BENCHMARK_MAIN();
