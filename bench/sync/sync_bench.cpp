// Meeting points and composition: channels, mutexes, select, futures, flows, sequences. The
// argument `workers` is 0 for the one-thread loop, else a pool of so many.
#include <weft/weft.hpp>

#include <benchmark/benchmark.h>

namespace {

using namespace weft;

/// Runs `body` as a fiber on a loop, or on a pool of so many workers.
template <class F>
void run_on(std::int64_t workers, F body) {
  if (workers == 0) {
    Loop loop;
    loop.run(body);
  } else {
    Pool pool(
        {.workers = static_cast<std::size_t>(workers), .report_stuck_after = Duration::zero()});
    pool.run(body);
  }
}

constexpr int per_round = 10'000;
void count(benchmark::State& state, std::int64_t each) {
  state.SetItemsProcessed(state.iterations() * each);
}

/// Values through a channel, from one to one or from four to four.
void channel(benchmark::State& state, int ends) {
  const int each = per_round / ends;
  run_on(state.range(0), [&] {
    for (auto _ : state) {
      Channel<int> values(static_cast<std::size_t>(state.range(1)));
      Scope scope;
      Latch senders(static_cast<std::size_t>(ends));
      for (int i = 0; i < ends; ++i) {
        scope.spawn([&, each] {
          for (int k = 0; k < each; ++k) values.send(k);
          senders.count_down();
        });
        scope.spawn([&] {
          while (values.recv()) {
          }
        });
      }
      senders.wait();
      values.close();
      scope.join();
    }
  });
  count(state, per_round);
}
void channel_1_to_1(benchmark::State& state) {
  channel(state, 1);
}
void channel_4_to_4(benchmark::State& state) {
  channel(state, 4);
}
BENCHMARK(channel_1_to_1)
    ->ArgNames({"workers", "capacity"})
    ->ArgsProduct({{0, 1, 2}, {0, 1, 128, 1024}})
    ->UseRealTime();
BENCHMARK(channel_4_to_4)
    ->ArgNames({"workers", "capacity"})
    ->ArgsProduct({{0, 1, 2}, {0, 128}})
    ->UseRealTime();

/// Lock and unlock by many in turn; `across`: with a yield in between.
void mutex(benchmark::State& state, bool across) {
  const auto tasks = static_cast<int>(state.range(1));
  const int each = per_round / tasks;
  run_on(state.range(0), [&] {
    for (auto _ : state) {
      Mutex mutex;
      Scope scope;
      for (int i = 0; i < tasks; ++i) {
        scope.spawn([&, each] {
          for (int k = 0; k < each; ++k) {
            const auto guard = mutex.lock();
            if (across) yield();
          }
        });
      }
      scope.join();
    }
  });
  count(state, per_round);
}
void mutex_contended(benchmark::State& state) {
  mutex(state, false);
}
void mutex_across_a_yield(benchmark::State& state) {
  mutex(state, true);
}
BENCHMARK(mutex_contended)
    ->ArgNames({"workers", "tasks"})
    ->ArgsProduct({{0, 1, 2}, {1, 8, 64}})
    ->UseRealTime();
BENCHMARK(mutex_across_a_yield)
    ->ArgNames({"workers", "tasks"})
    ->ArgsProduct({{0, 1, 2}, {8}})
    ->UseRealTime();

/// A select over N channels, of which one is fed.
template <std::size_t N>
void select_of(benchmark::State& state) {
  run_on(state.range(0), [&] {
    std::array<Channel<int>, N> channels;
    Scope scope;
    scope.spawn([&] {
      for (std::size_t i = 0; channels[i % N].send(1); ++i) {
      }
    });
    const auto all = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return race(channels[I].recv_op()...);
    };
    for (auto _ : state) {
      auto got = perform(all(std::make_index_sequence<N>{}));
      benchmark::DoNotOptimize(got);
    }
    for (auto& c : channels) c.close();
  });
  count(state, 1);
}
BENCHMARK(select_of<2>)->ArgName("workers")->Arg(0)->Arg(2)->UseRealTime();
BENCHMARK(select_of<8>)->ArgName("workers")->Arg(0)->Arg(2)->UseRealTime();
BENCHMARK(select_of<64>)->ArgName("workers")->Arg(0)->Arg(2)->UseRealTime();

/// async and get.
void future_round_trip(benchmark::State& state) {
  run_on(state.range(0), [&] {
    Scope scope;
    for (auto _ : state) {
      benchmark::DoNotOptimize(async(scope, []() -> Coro<int> { co_return 1; }).get());
    }
  });
  count(state, 1);
}
BENCHMARK(future_round_trip)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseRealTime();

void future_all_of_4(benchmark::State& state) {
  run_on(state.range(0), [&] {
    for (auto _ : state) {
      static_cast<void>(within({}, [&](Scope&) {
        const auto one = []() -> Coro<int> { co_return 1; };
        benchmark::DoNotOptimize(all(async(one), async(one), async(one), async(one)).get());
      }));
    }
  });
  count(state, 1);
}
BENCHMARK(future_all_of_4)->ArgName("workers")->Arg(0)->Arg(2)->UseRealTime();

/// A chain of maps, built once and run again and again; per operator.
void flow_map(benchmark::State& state) {
  const auto links = state.range(0);
  Loop loop;
  loop.run([&] {
    Flow<long> chain = flow::success(0L);
    for (std::int64_t i = 0; i < links; ++i)
      chain = chain | flow::map([](long n) { return n + 1; });
    for (auto _ : state) benchmark::DoNotOptimize(chain.run().value());
  });
  count(state, links);
}
BENCHMARK(flow_map)->ArgName("operators")->Arg(1)->Arg(10)->Arg(1000);

Flow<long> down(long n) {
  if (n == 0) return flow::success(0L);
  return flow::success(n) | flow::bind([](long k) { return down(k - 1); });
}
void flow_bind(benchmark::State& state) {
  Loop loop;
  loop.run([&] {
    for (auto _ : state) benchmark::DoNotOptimize(down(1000).run().value());
  });
  count(state, 1000);
}
BENCHMARK(flow_bind);

void sequence_map(benchmark::State& state) {
  Loop loop;
  loop.run([&] {
    for (auto _ : state) {
      auto values = seq::count(per_round) | seq::map([](std::uint64_t n) { return n + 1; });
      while (auto value = values.next()) benchmark::DoNotOptimize(value);
    }
  });
  count(state, per_round);
}
BENCHMARK(sequence_map);

void sequence_parallel_map(benchmark::State& state) {
  run_on(state.range(0), [&] {
    for (auto _ : state) {
      static_cast<void>(within({}, [&](Scope&) {
        auto values =
            seq::count(per_round) |
            seq::parallel_map(8, [](std::uint64_t n) -> Coro<std::uint64_t> { co_return n + 1; });
        while (auto value = values.next()) benchmark::DoNotOptimize(value);
      }));
    }
  });
  count(state, per_round);
}
BENCHMARK(sequence_parallel_map)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
